"""What the numbers of a forecast mean, and where it was measured how true they are."""

from pipeline.descriptors import Descriptor
from pipeline.planning.nights import STREAMED
from pipeline.publish import ReleaseConfig

ERROR = (
    "error: expected distance of the released mean from the mean of the class. The range is what "
    "tiles of public pictures err by at this n·μ, from {below:g} of the least set of them to "
    "{above:g} times the largest."
)
NOISE = "What clips nothing errs by its noise alone, whatever the images are."
STREAM = (
    "After the opening of a stream its ends are {below:g} and {above:g} times that; there it held "
    "141 of 144 errors on nights 40 to 200."
)
MEASURED = {
    2: "On classes that it was not set on, of PathMNIST, OCT2017 and AdrenalMNIST3D, it held 998 "
    "of 1,015 errors, on tiles of seven other pictures 575 of 590; most others were larger.",
    3: "The volumes that it is made from are put together from tiles, and it was measured on the "
    "masks of AdrenalMNIST3D alone, which were looked at before: it held 60 of 60 errors.",
}
"""By the dimensions of images: what ``python -m tests.tools.tuning --ranges`` finds."""
PERSONS = "Errors of persons were not measured: their records lie closer than those of images."
RADIUS = (
    "radius: within which 95 of 100 releases lie, where the error is in the range. All are "
    "estimates: stranger images may err more, and the guarantee does not rest on them."
)


def meaning(
    config: ReleaseConfig, spec: Descriptor, widened: tuple[float, float]
) -> tuple[str, ...]:
    """Return the sentences that are true of a forecast, in reading order."""
    said = [ERROR.format(below=widened[0], above=widened[1])]
    if config.plan.mechanisms:
        return (*said, NOISE, RADIUS)
    if config.nights is not None:
        said.append(STREAM.format(below=STREAMED[0], above=STREAMED[1]))
    said.append(MEASURED[spec.dimensions])
    if config.unit == "person":
        said.append(PERSONS)
    return (*said, RADIUS)
