"""Numbers of elements, in the frameworks that may compute with arrays whose elements they do not know yet."""

from typing import Any

import numpy as np


class Items:
    """Goes before the other forms; a subclass says what the number of an array is."""

    def _number(self, x: Any, dtype: Any, kind: Any) -> Any:
        """The only element as a number of this kind; an array without axes, of this dtype, where it is not known."""
        raise NotImplementedError

    def item(self, x: Any) -> Any:
        return self._number(x, x.dtype, lambda number: number)

    def item_int(self, x: Any) -> Any:
        return self._number(x, np.int64, int)

    def item_float(self, x: Any) -> Any:
        return self._number(x, np.float64, float)

    def item_bool(self, x: Any) -> Any:
        return self._number(x, np.bool_, bool)

    def item_not(self, x: Any) -> Any:
        return self._number(x == 0, np.bool_, bool)
