"""What relmo predict prints."""

from relmo.cli.tasks import _shown


def test_labels_from_a_run_do_not_steer_the_terminal():
    assert _shown("Ada\tB-\x1b[2JPER\nin\tO\ud800") == "Ada\tB-\\x1b[2JPER\nin\tO\\ud800"
