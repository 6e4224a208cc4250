"""Names of Arm cores: the kernel gives implementer and part numbers only.

Numbers from the manuals as collected in util-linux (sys-utils/lscpu-arm.c) and the kernel
(arch/arm64/include/asm/cputype.h); only 64-bit cores that a reader may sit in front of.
"""

from __future__ import annotations

_IMPLEMENTER = {
    0x41: "Arm", 0x42: "Broadcom", 0x43: "Cavium", 0x46: "Fujitsu", 0x48: "HiSilicon", 0x4E: "NVIDIA",
    0x50: "APM", 0x51: "Qualcomm", 0x53: "Samsung", 0x61: "Apple", 0x6D: "Microsoft", 0x70: "Phytium",
    0xC0: "Ampere",
}  # fmt: skip

_PART = {
    (0x41, 0xD02): "Cortex-A34", (0x41, 0xD03): "Cortex-A53", (0x41, 0xD04): "Cortex-A35",
    (0x41, 0xD05): "Cortex-A55", (0x41, 0xD06): "Cortex-A65", (0x41, 0xD07): "Cortex-A57",
    (0x41, 0xD08): "Cortex-A72", (0x41, 0xD09): "Cortex-A73", (0x41, 0xD0A): "Cortex-A75",
    (0x41, 0xD0B): "Cortex-A76", (0x41, 0xD0C): "Neoverse-N1", (0x41, 0xD0D): "Cortex-A77",
    (0x41, 0xD40): "Neoverse-V1", (0x41, 0xD41): "Cortex-A78", (0x41, 0xD44): "Cortex-X1",
    (0x41, 0xD46): "Cortex-A510", (0x41, 0xD47): "Cortex-A710", (0x41, 0xD48): "Cortex-X2",
    (0x41, 0xD49): "Neoverse-N2", (0x41, 0xD4A): "Neoverse-E1", (0x41, 0xD4B): "Cortex-A78C",
    (0x41, 0xD4C): "Cortex-X1C", (0x41, 0xD4D): "Cortex-A715", (0x41, 0xD4E): "Cortex-X3",
    (0x41, 0xD4F): "Neoverse-V2",
    (0x43, 0x0A0): "ThunderX", (0x43, 0x0AF): "ThunderX2", (0x46, 0x001): "A64FX",
    (0x48, 0xD01): "Kunpeng-920", (0x4E, 0x004): "Carmel", (0x50, 0x000): "X-Gene",
    (0x51, 0x802): "Kryo-3XX-Gold", (0x51, 0x803): "Kryo-3XX-Silver",
    (0x51, 0x804): "Kryo-4XX-Gold", (0x51, 0x805): "Kryo-4XX-Silver",
    (0x61, 0x022): "Icestorm-M1", (0x61, 0x023): "Firestorm-M1",
    (0x61, 0x024): "Icestorm-M1-Pro", (0x61, 0x025): "Firestorm-M1-Pro",
    (0x61, 0x028): "Icestorm-M1-Max", (0x61, 0x029): "Firestorm-M1-Max",
    (0x61, 0x032): "Blizzard-M2", (0x61, 0x033): "Avalanche-M2",
    (0xC0, 0xAC3): "Ampere-1", (0xC0, 0xAC4): "Ampere-1a",
}  # fmt: skip


def core_name(block: dict[str, str]) -> str:
    """The name of the core of one /proc/cpuinfo block; its numbers where the name is not known here."""
    implementer = int(block.get("CPU implementer", "0"), 0)
    part = int(block["CPU part"], 0)
    name = _PART.get((implementer, part))
    return name or f"{_IMPLEMENTER.get(implementer, f'implementer {implementer:#x}')} part {part:#x}"
