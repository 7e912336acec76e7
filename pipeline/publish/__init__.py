"""Publishing: from a ledger's account to files that hold private values and nothing else.

    config     the settings of a release, all of them public, and where the account is
    release    digest ─► reserve ─► draw with hardened noise ─► commit: the bytes that may leave
               (redact: what is not stated of images)
    document   those bytes: what they say, and the file (their schema: `covdp.schema`)
    night      the same for one night of a stream: new privacy units alone, paid when it was opened
               (arrivals: who is new; sums: what each night hands on; followed: the stream before)

    preview    images as they enter, and what a release would do: in the clear, for their owner

    history    what all committed documents of a population say (readings: terms with bands)
    several    documents of several releases, side by side
    local_images   local images, in the clear, beside a release
    maps       what puts the images of each site on one scale: the file of `covdp harmonise`

Between `release` and the rest only the committed bytes pass.

**The document of a night**, of a config with a table ``[stream]``, is that of a release and holds
besides all that the night made known, so that the documents of nights 1 to t, in order, say all
that is ever stated of them (`read_histories`):

``settings``         as of a release; ``settings.stream`` has ``horizon``, ``opening``, ``follows``
``night``            1, 2, …; ``settings.run_key`` is its date
``horizon``          the most nights there will be
``coefficient_norm`` ‖c‖ of the horizon: how far all nights together move with one privacy unit
``axes``             rows A, (d, d), in which the variances of windows are stated
``centre``           around which the stream counts, (d,); with other axes or another centre than
                     its first night's a stream does not go on
``statement``        pairs of title and text; ``account`` as of a release
``classes``          for each class what follows

``n_tonight``, ``n_so_far``     privacy units that entered this night, and up to it; ``n`` is the
latter.
                                Null where labels are secret: then ``n`` is counted with noise of
                                ``n_sd``, ``count`` is what was released for it, ``n_tonight`` of
                                the document and ``settings.total`` are of all classes together
``sigma``                       σ of the noise of each ``w``, the same every night
``w``, ``moment``, ``shells``   weighted sums of all nights of the epoch, noised; null until the
                                night after the opening
``opened``                      on the night of the opening: its mean (``offset``, in the chart),
                                what it ``observed``, and the noise of its shells
``epoch``                       on its first night: ``first``, ``centre``, ``radius``
``costs``                       of each draw of noise what it is for, Δ, σ and the certified ρ
``point``, ``predicted_error``  the mean of all privacy units so far; null before the opening, and
                                ``no_point`` says why
``certainty``                   what regions and tests read of a class: ``offered``, ``clipping``,
                                and the covariance of the error of ``point`` against the mean of all
                                privacy units (``sample``) and of the ``population``; its ``parts``,
                                the opening and the epochs, with what each says of its own privacy
                                units
``windows``                     of 1, 7, 30 and 90 nights: ``first``, ``last``, ``n``, ``point``,
                                ``offset``, ``variances`` v; the covariance of the noise of
                                ``offset`` is Aᵀ·diag(v)·A, exactly; where labels are secret it is
                                ``covariance``, of which v is the diagonal along the axes
``before``, ``joined``          of a stream that follows another: the mean of those before it (on
                                night 1), and of all together
"""

from covdp.publish.config import ReleaseConfig as ReleaseConfig
from covdp.publish.config import ledger_address as ledger_address
from covdp.publish.config import load_release as load_release
from covdp.publish.config import plain_name as plain_name
from covdp.publish.document import DOCUMENT_SCHEMA as DOCUMENT_SCHEMA
from covdp.publish.document import ClassHistory as ClassHistory
from covdp.publish.document import check_folder as check_folder
from covdp.publish.document import read_document as read_document
from covdp.publish.document import read_histories as read_histories
from covdp.publish.document import write_document as write_document
from covdp.publish.document import write_parquet as write_parquet
from covdp.publish.readings import read_terms as read_terms
from covdp.publish.release import release_once as release_once
from covdp.publish.release import released_since as released_since
