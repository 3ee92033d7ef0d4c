"""Control messages to and from JSON, which is checked strictly (pure)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from trunkline.agents.wire.messages import Control, ProtocolError

_CONTROL: TypeAdapter[Control] = TypeAdapter(Annotated[Control, Field(discriminator="type")])


def to_json(message: Control) -> bytes:
    """Encode a message as one JSON object."""
    return _CONTROL.dump_json(message)


def from_json(text: bytes) -> Control:
    """Decode a message. Raises ProtocolError if the text is not a valid message."""
    try:
        return _CONTROL.validate_json(text)
    except ValidationError as error:
        raise ProtocolError(f"no valid message: {error}") from None
