"""Batches of samples as columns, names included, for recordings that are larger than memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfpy.analysis.sample_names import MADE_OF, name_makers
from perfpy.data_frames import ConvertibleSamples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfpy.analysis.sample_names import Naming
    from perfpy.analysis.samples.sample_view import SampleView
    from perfpy.perfdata.container.events import FileEvent


class SampleBatch(ConvertibleSamples):
    """A batch of samples, in order of delivery: batch["ip"] is a column, batch["symbol"] one of names, like those of Recording.samples.

    len(batch) is the number of samples, keys() are the fields, `names` the columns of names, which are resolved on first use.
    batch["event"] indexes `events`, the events of the recording.
    """

    def __init__(self, view: SampleView, events: Sequence[FileEvent], naming: Naming, whole_chains: Callable[[], SampleView]) -> None:
        """Wrap a view; whole_chains: returns the same samples with whole callchains, if stacks were copied."""
        self._view = view
        self._naming = naming
        self._whole_chains = whole_chains
        self._columns: dict[str, Any] = {"event": view.event}
        self.events = events

    def __len__(self) -> int:
        return len(self._view)

    @property
    def first_key(self) -> int:
        """The position of these samples in the order of delivery."""
        return int(self._view.key[0])

    def keys(self) -> list[str]:
        """Return the names of the kernel's fields."""
        return ["event", *self._view.columns]

    @property
    def names(self) -> list[str]:
        """The available columns of names: "comm", "dso", "symbol", "srcline", "stack"."""
        available = set(self.keys())
        return [name for name, fields in MADE_OF.items() if not set(fields) - available]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys() or name in self.names

    def __getitem__(self, name: str) -> Any:
        if name not in self._columns:
            if name not in self:
                raise KeyError(f"no column {name!r}; these samples have {', '.join([*self.keys(), *self.names])}")
            if name in MADE_OF:
                (maker,) = name_makers(self._naming, [name])
                maker.see(self._whole_chains() if name == "stack" else self._view)
                self._columns.update(maker.columns())
            else:
                self._columns[name] = self._view.columns[name]
        return self._columns[name]

    def add(self, name: str, column: Any) -> None:
        """Add a column, with a value for each sample."""
        self._columns[name] = column
