"""The way to a cluster of tests/chaos, over a network that loses, repeats, delays and reorders what is said."""

from dataclasses import dataclass
from typing import ClassVar

from cluster import CLUSTERS

from fieldcraft.flows.jobs.dispatcher import Place


@dataclass(frozen=True)
class Faulty:
    """Hands every call over to the cluster of the campaign."""

    place: Place
    by_people: ClassVar[bool] = False

    @property
    def cluster(self):
        return CLUSTERS[self.place.campaign]

    def submit(self, job):
        return self.cluster.submit(job, self.place)

    def find(self, key):
        return self.cluster.find(key)

    def look(self, handle):
        return self.cluster.look(handle["key"])

    def poll(self, handle):
        return self.cluster.poll(handle["key"])

    def fetch(self, handle):
        return self.cluster.fetch(handle["key"])

    def cancel(self, handle):
        self.cluster.cancel(handle["key"])

    def forget(self, key):
        self.cluster.forget(key, self.place)

    def wait(self, handles, seconds):
        pass
