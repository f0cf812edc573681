"""What a command says when it is interrupted."""

import signal
import threading
import time
from contextlib import nullcontext

import pytest

from relmo.cli.main import main
from relmo.cli.shared import Stopped, if_interrupted, interruptible, say_interrupted, say_line
from relmo.errors import Interrupted

COMMAND = ["embed", "my text.txt", "-o", "out.h5"]


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "interrupted. Start again with: relmo embed 'my text.txt' -o"),
        (Interrupted(cause=15), 143, "interrupted. Start again with: relmo embed 'my text.txt' -o"),
        (Interrupted("3 lines are saved", True), 130, "3 lines are saved. Continue with: relmo em"),
    ],
)
def test_it_says_what_is_safe_and_how_to_go_on(capsys, error, code, said):
    assert say_interrupted(error, COMMAND) == code
    line = capsys.readouterr().err
    assert line.startswith(f"relmo: {said}")
    can_resume = isinstance(error, Interrupted) and error.can_resume
    assert line.endswith(" --resume\n" if can_resume else " out.h5\n")


def test_an_option_that_is_there_is_not_given_twice(capsys):
    say_interrupted(Interrupted("all is saved", True), ["train", "--resume", "--json"])
    assert capsys.readouterr().err.endswith("relmo train --resume --json\n")


def test_of_several_processes_the_first_speaks(capsys, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    assert say_interrupted(KeyboardInterrupt(), COMMAND) == 130
    assert capsys.readouterr().err == ""


def test_sigterm_is_treated_as_ctrl_c_is():
    before = signal.getsignal(signal.SIGTERM)

    @interruptible
    def command(number: int) -> None:
        with if_interrupted("the first half is saved", can_resume=True):
            signal.raise_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        with pytest.raises(Stopped) as caught:
            command(number)
        assert str(caught.value.cause) == "the first half is saved"
        assert caught.value.cause.signal == number
    assert signal.getsignal(signal.SIGTERM) == before


def test_work_that_knows_better_is_believed():
    with pytest.raises(Interrupted, match="^7 lines$"), if_interrupted("something"):
        raise Interrupted("7 lines")


def test_a_command_in_another_thread_leaves_signals_alone():
    done = []
    thread = threading.Thread(target=interruptible(lambda: done.append(True)))
    thread.start()
    thread.join()
    assert done == [True]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_python_loses_is_repeated(number):
    class Cleaned:
        def __del__(self):
            signal.raise_signal(number)  # the exception of its handler is ignored here

    @interruptible
    def command():
        Cleaned()
        time.sleep(20)

    with pytest.raises(Stopped) as stopped:
        command()
    assert getattr(stopped.value.cause, "signal", signal.SIGINT) == number


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("safe", ["", "nothing was written"])
def test_an_interruption_that_a_library_turns_into_its_own_error_is_one(number, safe):
    @interruptible
    def command():
        with if_interrupted(safe) if safe else nullcontext():
            try:
                signal.raise_signal(number)
            except KeyboardInterrupt:
                raise ValueError("could not determine the shape") from None

    with pytest.raises(Stopped) as stopped:
        command()
    assert (stopped.value.cause.signal, str(stopped.value.cause)) == (number, safe)


def test_an_error_without_an_interruption_stays_one():
    @interruptible
    def command():
        with if_interrupted("nothing was written"):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        command()


def test_an_interruption_before_the_command_begins_is_a_line(monkeypatch, capsys):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("relmo.cli.main.app", interrupted)
    with pytest.raises(SystemExit) as end:
        main(["info", "tiny"])
    assert end.value.code == 130
    assert capsys.readouterr().err == "relmo: interrupted. Start again with: relmo info tiny\n"


def test_a_line_of_training_is_in_words(capsys):
    say_line({"step": 1050, "epoch": 0.5, "seconds": 9.1, "loss": 2.0, "rate": 0.1,
              "steps_per_second": 6.4961, "seconds_left": 300.0, "mean_loss": 4.1701})  # fmt: skip
    say_line({"step": 1050, "held_out_mean": 66.95681})
    say_line({"step": 9, "seconds_left": 8.0, "may_end_early": True})
    assert capsys.readouterr().err.splitlines() == [
        "relmo: step 1,050, epoch 0.5, steps per second 6.496, loss 4.17, about 5 min left",
        "relmo: step 1,050, held-out mean 66.96",
        "relmo: step 9, at most 8 s left",
    ]
