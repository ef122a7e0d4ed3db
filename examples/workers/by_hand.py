"""Workers without a tracker: whoever starts the processes lets each of them know the addresses of all."""

import multiprocessing

import arboost as xgb
from arboost import collective
from arboost.demo import load_bike_sharing

PARAMS = {"max_depth": 4, "nthread": 1}


def work(rank, pipe):
    listener = collective.Listener("127.0.0.1")  # between machines: Listener(), or this one's name
    pipe.send(listener.address)
    addresses = pipe.recv()
    X, y, _ = load_bike_sharing()  # a real program would read its own rows only
    rows = slice(len(X) * rank // len(addresses), len(X) * (rank + 1) // len(addresses))
    with collective.connect(rank, addresses, listener=listener):
        model = xgb.train(PARAMS, xgb.DMatrix(X[rows], y[rows]), 3)
    pipe.send(model.save_raw())


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(2)]
    for rank, (_, pipe) in enumerate(pipes):
        context.Process(target=work, args=(rank, pipe)).start()
        pipe.close()  # the worker has it now: should it die, whoever waits for it gets an EOFError
    addresses = [pipe.recv() for pipe, _ in pipes]  # what a cluster's own tools do: gather, and hand out
    for pipe, _ in pipes:
        pipe.send(addresses)
    models = [pipe.recv() for pipe, _ in pipes]
    X, y, _ = load_bike_sharing()
    alone = xgb.train(PARAMS, xgb.DMatrix(X, y), 3).save_raw()
    print("the model of one machine:", models == [alone, alone])
