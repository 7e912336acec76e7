"""A release that is a night of a stream: what is asked of its table ``[stream]``."""

from pathlib import Path

from covdp.addons.nights.config import StreamSettings
from covdp.addons.nights.ledger import stream_named, stream_status
from covdp.addons.nights.night import check_night, count_waiting, release_night, unfinished_night
from covdp.ledger import Ledger
from covdp.privacy import equation
from covdp.publish.config import Expect, ReleaseConfig
from covdp.store import Place


class StreamConfig(StreamSettings):
    """A stream of nights, and how one of them is paid, released and shown."""

    def check_account(
        self, config: ReleaseConfig, ledger: Ledger, *, planned: bool, beside: bool
    ) -> None:
        """Refuse what the account is not to pay, other settings, or a night that is not due."""
        check_night(config, ledger, planned=planned, beside=beside)

    def unfinished(self, config: ReleaseConfig, ledger: Ledger) -> str | None:
        """Return the run key of a night before the config's that is not committed yet."""
        return unfinished_night(config, ledger)

    def release(
        self,
        config: ReleaseConfig,
        ledger: Ledger,
        root: Path | None,
        store: Place | None,
        *,
        beside: bool,
        expect: Expect | None,
    ) -> bytes:
        """Release the night of the config's run key, or return it."""
        return release_night(config, ledger, root, store, beside=beside, expect=expect)

    def is_stored(self, config: ReleaseConfig, ledger: Ledger) -> bool:
        """Return whether the night is; a night is one for ever, whenever it was committed."""
        status = stream_status(ledger, config.population, config.name, str(config.run_key))
        return status is not None and status.state == "stored"

    def intention(self, config: ReleaseConfig, ledger: Ledger) -> tuple[str, bool]:
        """Return what a release would do, open or go on, and whether it would be paid now."""
        name, population, key = config.name, config.population, str(config.run_key)
        stream = stream_named(ledger, population, name)
        if stream is None:
            nights = f"once for {self.horizon:,} nights"
            cost = equation(config.charge)
            return f"open the stream {name!r}: {population!r} pays {cost}, {nights}", True
        status = stream_status(ledger, population, name, key)
        if status is not None and status.tonight is not None:
            return f"give night {key} of the stream {name!r} again, at no cost", False
        night = f"night {stream.nights + 1:,} of {stream.horizon:,}"
        return f"go on with the stream {name!r} of {population!r}: {night}, at no cost", False

    def waiting(self, config: ReleaseConfig, ledger: Ledger, root: Path | None) -> str:
        """Return how many images or persons wait for the next night, in words; "" for none."""
        waiting = count_waiting(config, ledger, root)
        what = f"{'file' if config.unit == 'image' else 'person'}{'s' * (waiting != 1)}"
        return bool(waiting) * (
            f"up to {waiting:,} new {what} in the folder, not in this night: the next night, of "
            "another day, takes up what has not entered"
        )
