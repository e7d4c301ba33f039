"""The file around the records: header, feature sections, the preamble, compression; reading and writing."""
