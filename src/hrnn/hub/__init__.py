"""Models and runs as folders that others can load, on this machine or on the Hugging Face Hub.

hrnn.hub.save_pretrained("runs/book", "book")
pretrained = hrnn.hub.from_pretrained("book")
output, state = pretrained.model(x)
logits = pretrained.head(output)
"""

from hrnn.hub.files import Pretrained, from_pretrained, push_to_hub, save_pretrained

__all__ = ["Pretrained", "from_pretrained", "push_to_hub", "save_pretrained"]
