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
        """Refuse a charge that the account may not pay, other settings, or a night before its day.

        Parameters
        ----------
        config : ReleaseConfig
            Settings of the release.
        ledger : Ledger
            Ledger whose account pays.
        planned : bool
            True for a night of a time to come, which need not be due.
        beside : bool
            True if it may be paid beside another stream, or beside releases.
        """
        check_night(config, ledger, planned=planned, beside=beside)

    def unfinished(self, config: ReleaseConfig, ledger: Ledger) -> str | None:
        """Return the run key of a night before the config's that is not committed yet.

        Parameters
        ----------
        config : ReleaseConfig
            Settings of the release.
        ledger : Ledger
            Ledger whose account pays.
        """
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
        """Release the night of the config's run key, or give it back.

        Parameters
        ----------
        config : ReleaseConfig
            Settings of the release.
        ledger : Ledger
            Ledger whose account pays.
        root : Path or None
            Folder of the images.
        store : Place or None
            Store of the descriptors; a private one that goes when None.
        beside : bool
            True if it may be paid beside another stream, or beside releases.
        expect : Expect or None
            Function that raises where the public sizes say that nothing will be usable.

        Returns
        -------
        bytes
            Committed bytes of the document.
        """
        return release_night(config, ledger, root, store, beside=beside, expect=expect)

    def is_stored(self, config: ReleaseConfig, ledger: Ledger) -> bool:
        """Return True if the night is stored; a night is one for ever, whenever it was committed.

        Parameters
        ----------
        config : ReleaseConfig
            Settings of the release.
        ledger : Ledger
            Ledger whose account pays.
        """
        status = stream_status(ledger, config.population, config.name, str(config.run_key))
        return status is not None and status.state == "stored"

    def intention(self, config: ReleaseConfig, ledger: Ledger) -> tuple[str, bool]:
        """Return the next act of a release, in words, and True if it would be paid now.

        Parameters
        ----------
        config : ReleaseConfig
            Settings of the release.
        ledger : Ledger
            Ledger whose account pays.
        """
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
        """Return the number of images or persons that wait for a night, in words; "" for none.

        Parameters
        ----------
        config : ReleaseConfig
            Settings of the release.
        ledger : Ledger
            Ledger whose account pays.
        root : Path or None
            Folder of the images.
        """
        waiting = count_waiting(config, ledger, root)
        what = f"{'file' if config.unit == 'image' else 'person'}{'s' * (waiting != 1)}"
        return bool(waiting) * (
            f"up to {waiting:,} new {what} in the folder, not in this night: the next night, of "
            "another day, takes up what has not entered"
        )
