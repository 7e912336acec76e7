"""The document of a joint release: that of a release, and who took part."""

from pydantic import BaseModel, Field

from covdp.schema import Divisor, Label, Name, ReleaseDocument


class JointPart(BaseModel):
    """Hospitals that released together; the statement says what each is promised."""

    study: Name = Field(description="digest of the terms and of the version of covdp")
    hospital: Name = Field(description="the hospital that committed this document")
    hospitals: list[tuple[Name, Name]] = Field(description="names and fingerprints of keys")
    colluders: Label = Field(description="hospitals that may show their noise to an attacker")
    noise: Divisor = Field(description="σ of a total over the σ that the promise counts")
    opened: Name = Field(description="digest of all opened totals, the same at all hospitals")


class JointDocument(ReleaseDocument):
    """The document of a joint release at one hospital; its classes are the same at all."""

    joint: JointPart

    @property
    def others(self) -> list[str]:
        """Names of the other hospitals."""
        return [name for name, _ in self.joint.hospitals if name != self.joint.hospital]

    @property
    def is_simulated(self) -> bool:
        """True if all hospitals have the key of one ledger."""
        return len({key for _, key in self.joint.hospitals}) == 1
