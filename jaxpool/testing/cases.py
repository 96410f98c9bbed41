"""Poolings of real networks, each with its source."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NamedCase:
    """A pooling of a published network or method.

    Attributes:
      name: a short unique name, usable as a test or benchmark id.
      source: the publication that describes the layer.
      shape: shape of the input, batch first, channels last.
      op: name of the public function, such as "max_pool".
      window, strides, padding, rounding, dilations: settings of that function.
      count_include_pad: for "avg_pool".
    """

    name: str
    source: str
    shape: tuple[int, ...]
    op: str
    window: tuple[int, ...]
    strides: tuple[int, ...]
    padding: str | tuple[tuple[int, int], ...] = "VALID"
    rounding: str = "floor"
    dilations: tuple[int, ...] | int = 1
    count_include_pad: bool = True

    @property
    def settings(self) -> dict[str, Any]:
        """The keyword arguments of the public function, all except ``x``."""
        arguments: dict[str, Any] = {
            "window_shape": self.window,
            "strides": self.strides,
            "padding": self.padding,
            "rounding": self.rounding,
            "dilations": self.dilations,
        }
        if self.op == "avg_pool":
            arguments["count_include_pad"] = self.count_include_pad
        return arguments


_RESNET = "He et al. 2015, arXiv:1512.03385, table 1"
_GOOGLENET = "Szegedy et al. 2014, arXiv:1409.4842, table 1"
_YOLO_SPP = "Bochkovskiy et al. 2020, arXiv:2004.10934, block SPP"
_C3D = "Tran et al. 2015, arXiv:1412.0767, section 3.2"
_ONE_EACH_SIDE = (1, 1)

NAMED_CASES: tuple[NamedCase, ...] = (
    NamedCase("alexnet-pool1", "Krizhevsky et al. 2012, section 3.4 (overlapping pooling)",
              (8, 55, 55, 96), "max_pool", (3, 3), (2, 2)),
    NamedCase("vgg-pool2", "Simonyan and Zisserman 2014, arXiv:1409.1556, section 2.1",
              (4, 112, 112, 128), "max_pool", (2, 2), (2, 2)),
    NamedCase("resnet-stem", _RESNET,
              (8, 112, 112, 64), "max_pool", (3, 3), (2, 2), (_ONE_EACH_SIDE, _ONE_EACH_SIDE)),
    NamedCase("googlenet-pool1", _GOOGLENET + "; ceil_mode of torchvision's GoogLeNet",
              (8, 112, 112, 64), "max_pool", (3, 3), (2, 2), rounding="ceil_torch"),
    NamedCase("googlenet-branch", _GOOGLENET,
              (8, 28, 28, 192), "max_pool", (3, 3), (1, 1), (_ONE_EACH_SIDE, _ONE_EACH_SIDE)),
    NamedCase("inception-v3-average", "Szegedy et al. 2015, arXiv:1512.00567; TensorFlow's SAME",
              (8, 35, 35, 192), "avg_pool", (3, 3), (1, 1), (_ONE_EACH_SIDE, _ONE_EACH_SIDE),
              count_include_pad=False),
    NamedCase("densenet-transition", "Huang et al. 2016, arXiv:1608.06993, table 1",
              (8, 56, 56, 128), "avg_pool", (2, 2), (2, 2)),
    NamedCase("mobilenet-head", "Howard et al. 2017, arXiv:1704.04861, table 1: a global average",
              (32, 7, 7, 1024), "avg_pool", (7, 7), (1, 1)),
    NamedCase("resnet-head", _RESNET + ": a global average",
              (32, 7, 7, 2048), "avg_pool", (7, 7), (1, 1)),
    NamedCase("yolo-sppf-5", "YOLOv5, block SPPF of the ultralytics repository",
              (4, 20, 20, 256), "max_pool", (5, 5), (1, 1), ((2, 2), (2, 2))),
    NamedCase("yolo-spp-9", _YOLO_SPP,
              (4, 20, 20, 256), "max_pool", (9, 9), (1, 1), ((4, 4), (4, 4))),
    NamedCase("yolo-spp-13", _YOLO_SPP,
              (4, 20, 20, 256), "max_pool", (13, 13), (1, 1), ((6, 6), (6, 6))),
    NamedCase("unet-pool2", "Ronneberger et al. 2015, arXiv:1505.04597, figure 1",
              (1, 280, 280, 128), "max_pool", (2, 2), (2, 2)),
    NamedCase("c3d-pool1", _C3D,
              (1, 16, 112, 112, 64), "max_pool", (1, 2, 2), (1, 2, 2)),
    NamedCase("c3d-pool2", _C3D,
              (1, 16, 56, 56, 128), "max_pool", (2, 2, 2), (2, 2, 2)),
    NamedCase("i3d-branch", "Carreira and Zisserman 2017, arXiv:1705.07750, figure 3",
              (1, 32, 28, 28, 192), "max_pool", (3, 3, 3), (1, 1, 1), "SAME"),
    NamedCase("audio-m5-pool1", "Dai et al. 2016, arXiv:1610.00087, table 1",
              (8, 8000, 128), "max_pool", (4,), (4,)),
    NamedCase("moving-maximum-101", "peak picking over one second of sound at 16 kHz",
              (8, 16000, 16), "max_pool", (101,), (1,), "SAME"),
    NamedCase("dark-channel-15", "He, Sun and Tang 2009, single image haze removal: 15x15 minimum",
              (1, 400, 600, 1), "min_pool", (15, 15), (1, 1), "SAME"),
    NamedCase("dilation-31", "grey dilation by a flat square (Serra 1982)",
              (1, 512, 512, 16), "max_pool", (31, 31), (1, 1), ((15, 15), (15, 15))),
    NamedCase("dense-vgg-pool2", "Li, Zhao and Wang 2014, arXiv:1412.4526: pixelwise, dilated",
              (1, 128, 128, 128), "max_pool", (2, 2), (1, 1), "SAME", dilations=(2, 2)),
)  # fmt: skip
"""Poolings of real networks, for tests, benchmarks and pictures."""
