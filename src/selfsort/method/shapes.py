"""Every tensor shape of the method, named once."""

from jaxtyping import Float, Int64
from torch import Tensor

Batch = Float[Tensor, "batch *shape"]
"""Things of any modality."""

Images = Float[Tensor, "batch channel height width"]
Parents = Int64[Tensor, " batch"]
Latent = Float[Tensor, "batch latent"]
Logits = Float[Tensor, "batch parent duplicate"]
ParentLogProbs = Float[Tensor, "batch parent"]
NodeGraph = Float[Tensor, "parent duplicate duplicate"]
Scalar = Float[Tensor, ""]
