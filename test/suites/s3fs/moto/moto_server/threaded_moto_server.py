"""The server that the suite would start: the gateway runs already."""


class ThreadedMotoServer:
    def __init__(self, **_options):
        pass

    def start(self):
        pass

    def stop(self):
        pass
