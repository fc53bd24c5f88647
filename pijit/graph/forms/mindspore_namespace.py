"""The namespace `xp` of MindSpore: the functions of NumPy's that the forms use, on `Array`s.

1. Arguments and results are as in NumPy, but dtypes are promoted as in torch.
2. Where all arguments are constants, or one has no elements, NumPy computes the result: it is a constant. MindSpore has
   no kernels for arrays without elements.
3. Where MindSpore's result for NaN or infinities is not NumPy's, more than one operator is called.
"""

from pijit.graph.forms.mindspore_elementwise import *  # noqa: F403
from pijit.graph.forms.mindspore_folding import asarray  # noqa: F401
from pijit.graph.forms.mindspore_reductions import *  # noqa: F403
from pijit.graph.forms.mindspore_shapes import *  # noqa: F403
