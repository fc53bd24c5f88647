"""Forms that NumPy and JAX share: `Arrays` has them as methods, over the array namespace `self.xp`.

A framework's class gives what the namespaces do not have in common: `xp`, `erf`, `_put`, `_convolve` and
`_kernel_gradient`. Results have the dtypes of torch.
"""

import keyword
from collections.abc import Callable
from typing import Any

from pijit.graph.forms import numbers
from pijit.graph.forms.arrays_convolution import Convolution
from pijit.graph.forms.arrays_indexing import Indexing
from pijit.graph.forms.arrays_pooling import Resampling
from pijit.graph.forms.arrays_recurrent import Recurrent
from pijit.graph.forms.arrays_reduction import Algebra, Fourier
from pijit.graph.forms.arrays_training import Training
from pijit.graph.vocabulary import rows


class Arrays(Convolution, Resampling, Training, Recurrent, Indexing, Algebra, Fourier):
    """All forms of a namespace."""


def functions(forms: Arrays) -> dict[str, Callable[..., Any]]:
    """The function of each row that has a form, by name."""
    own = {name: getattr(forms, f"{name}_" if keyword.iskeyword(name) else name, None) for name in rows()}
    found = {name: form or numbers.FORMS.get(name) for name, form in own.items()}
    return {name: form for name, form in found.items() if form is not None}
