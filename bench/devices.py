"""Devices that a floor can be asked for.

What a datasheet says of memory and of bfloat16 products (dense, sums in float32) is scaled as the H200's is by what was
measured there: a copy reaches 4.3 of its 4.8 TB/s, a large product 790 of its 989 TFLOP/s.
"""

from __future__ import annotations

from node.engine.roofline import H200, Device

COPY = H200.bandwidth / 4.8e12
PRODUCT = H200.rate / 989.4e12


def _of_datasheet(name: str, bandwidth: float, rate: float) -> Device:
    return Device(name, bandwidth=COPY * bandwidth, rate=PRODUCT * rate)


DEVICES = {
    "H200": H200,
    "H100": _of_datasheet("H100 SXM", 3.35e12, 989.4e12),  # nvidia.com/en-us/data-center/h100
    "A100": _of_datasheet("A100 80 GB SXM", 2.039e12, 312e12),  # nvidia.com/en-us/data-center/a100
    "4090": _of_datasheet("RTX 4090", 1.008e12, 165.2e12),  # Ada GPU architecture whitepaper, appendix A
    "L4": _of_datasheet("L4", 0.3e12, 121e12),  # nvidia.com/en-us/data-center/l4: 242 with sparsity
}
