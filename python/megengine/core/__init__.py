"""What lies below the public modules, and names that programs import from here."""

from ._imperative_rt.core2 import get_option as get_option
from ._imperative_rt.core2 import set_option as set_option
