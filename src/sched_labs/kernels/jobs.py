"""Jobs"""
from typing import Any
def hello() -> dict[str, Any]:
    import os, sys
    return {"modules": len(sys.modules), "release": os.uname().release}
