"""The error tree, exit codes, and the install command of a missing extra."""

import signal

import pytest

from relmo import errors


def test_a_missing_extra_names_its_install_line(monkeypatch):
    monkeypatch.setitem(errors.EXTRAS, "parquet", ("no_such_module", "Parquet files need"))
    with pytest.raises(errors.MissingExtra, match=r"pip install 'relmo\[parquet\]'"):
        errors.need_extra("parquet")


def test_every_error_is_a_relmo_error():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    raised = [
        kind for kind in kinds if issubclass(kind, Exception) and kind is not errors.TextWarning
    ]
    assert len(raised) == 8
    assert all(issubclass(kind, errors.RelmoError) for kind in raised)


def test_a_wrong_call_and_failed_work_exit_differently():
    for kind in (errors.ConfigError, errors.ModelNotFound, errors.MissingExtra):
        assert errors.exit_code(kind("x")) == 2
    for kind in (errors.TextError, errors.WeightError, errors.OutputError, errors.RelmoError):
        assert errors.exit_code(kind("x")) == 1


def test_an_interruption_knows_its_signal():
    first = errors.Interrupted(cause=signal.SIGTERM)
    again = errors.Interrupted("3 lines are saved", can_resume=True, cause=first)
    assert (str(first), str(again)) == ("", "3 lines are saved")
    assert first.signal == again.signal == signal.SIGTERM
    assert errors.Interrupted(cause=KeyboardInterrupt()).signal == signal.SIGINT
