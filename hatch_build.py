"""Part of building a wheel: the C of hrnn/native is compiled where there is a compiler; where not, the wheel is pure Python,
and everything works, only slower."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path("src", "hrnn", "native")


class NativeHook(BuildHookInterface):
    PLUGIN_NAME = "custom"
    place: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile: for an editable install in place, otherwise for the wheel alone."""
        native = Path(self.root, NATIVE)
        try:
            build = module(native / "build.py")
            if version == "editable":
                build.remove(native)  # what is there may be older than what now cannot be built
                build.build(native)
                return
            self.place = Path(tempfile.mkdtemp())
            made = build.build(self.place)
        except Exception as error:  # whatever it is, the package works without
            self.app.display_warning(f"hrnn is installed without native code: {error}. Everything works, only slower.")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{build.platform_tag(made)}"
        build_data["force_include"] |= {str(path): f"hrnn/native/{path.name}" for path in self.place.iterdir()}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self.place is not None:
            shutil.rmtree(self.place, ignore_errors=True)


def module(path: Path) -> ModuleType:
    """A file as a module, without the package around it, which is not installed yet."""
    spec = importlib.util.spec_from_file_location("hrnn_native_build", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found
