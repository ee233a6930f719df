"""Resources that jobs exclude each other on, and how many may hold one."""

from __future__ import annotations

from holdfast.client.client import Client
from holdfast.store.calls import operating
from holdfast.store.steps import ask


class Resource:
    """One resource by its key. Unless it was told otherwise, one job holds it at a time."""

    def __init__(self, key: str, client: Client) -> None:
        self.key = key
        self._client = client

    @property
    def capacity(self) -> int:
        """How many jobs may hold it at once."""
        return self._client.run(ask(operating.resource_capacity(self.key)))

    @capacity.setter
    def capacity(self, capacity: int) -> None:
        self._client.run(ask(operating.set_resource_capacity(self.key, capacity)))

    async def acapacity(self) -> int:
        """As reading `capacity`, for asyncio."""
        return await self._client.arun(ask(operating.resource_capacity(self.key)))

    async def aset_capacity(self, capacity: int) -> None:
        """As setting `capacity`, for asyncio."""
        await self._client.arun(ask(operating.set_resource_capacity(self.key, capacity)))

    def __repr__(self) -> str:
        return f"<Resource {self.key}>"


class Resources:
    """`hf.resources["smtp"].capacity = 2`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getitem__(self, key: str) -> Resource:
        return Resource(key, self._client)
