"""Published networks, written as users of each library write them, with that library's pools.

They do not mention jaxpool. ``haiku.nets.ResNet50`` is the library's network. The other networks
follow the paper or the original code that their docstrings name, at full depth: the packages that
contain them do not run with today's libraries, or do not exist. If a width or a head is smaller
than published, the docstring says so.
"""

from .common import Network
from .of_equinox import squeezenet, vgg
from .of_flax import PoolFormer, ResNet50, SegNet, UNet, of_linen, small_cnn
from .of_haiku import inception, resnet

__all__ = ["NETWORKS", "Network"]

NETWORKS: tuple[Network, ...] = (
    Network("haiku.nets.ResNet50", "haiku", resnet, 2, 128),
    Network("ResNet-50 of Flax's ImageNet example", "flax", of_linen(ResNet50()), 2, 128),
    Network("SqueezeNet 1.1", "equinox", squeezenet, 2, 224),
    Network("VGG-11", "equinox", vgg, 2, 96),
    Network("Inception v3", "haiku", inception, 2, 139),
    Network("U-Net", "flax", of_linen(UNet()), 1, 128),
    Network("SegNet", "flax", of_linen(SegNet()), 1, 128),
    Network("PoolFormer-S12", "flax", of_linen(PoolFormer()), 2, 128),
    Network("a small CNN", "flax", small_cnn, 8, 64),
)
