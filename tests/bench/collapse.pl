# perf script's text -> one line for each distinct stack: what scripts that fold stacks for flame graphs do.
use strict;
use warnings;

my (%count, @stack, $command);

sub finish {
    $count{ join ';', $command, reverse @stack }++ if defined $command;
    @stack = ();
    undef $command;
}

while (my $line = <STDIN>) {
    chomp $line;
    if ($line =~ /^\s*$/) {
        finish();
    } elsif (!defined $command) {
        ($command) = $line =~ /^\s*(\S.*?)\s+\d+/;
    } elsif ($line =~ /^\s*[0-9a-f]+\s+(.+)\s+\((.*)\)$/) {
        my $function = $1;
        $function =~ s/\+0x[0-9a-f]+$//;
        push @stack, $function;
    }
}
finish();
print "$_ $count{$_}\n" for sort keys %count;
