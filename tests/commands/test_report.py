"""hrnn report as a command: what it says, and the page while runs go on."""

import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading

import pytest

from hrnn.errors import UserError
from hrnn.report.page import PLOTLY, plotly_script, render
from hrnn.report.page_content import gather
from hrnn.report.page_live import Server
from hrnn.report.page_runs import Reader
from tests.commands.console import complaint, hrnn
from tests.report.pages import records, write
from tests.waiting import PATIENCE


def test_a_page_of_runs_and_studies(tmp_path, capsys, monkeypatch):
    run = write(tmp_path / "run")
    assert hrnn(capsys, "report", run, "copy", "-o", tmp_path / "page.html") == (0, f"{tmp_path / 'page.html'}\n", "")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    monkeypatch.chdir(tmp_path)
    assert hrnn(capsys, "report", "run") == (0, "report.html\n", "")


def test_what_cannot_be_read_is_said_and_the_others_are_shown(tmp_path, capsys):
    write(tmp_path / "good")
    (write(tmp_path / "bad", seed=1) / "config.json").write_text("{")
    code, out, err = hrnn(capsys, "report", tmp_path, "-o", tmp_path / "page.html")
    assert (code, out) == (0, f"{tmp_path / 'page.html'}\n")
    assert err.startswith(f"skipped {tmp_path / 'bad'}: {tmp_path / 'bad' / 'config.json'} cannot be read")


def test_mistakes(tmp_path, capsys):
    run = write(tmp_path / "run")
    (tmp_path / "empty").mkdir()
    assert "a report of what?" in complaint(capsys, "report")
    assert "ends with .html" in complaint(capsys, "report", run, "-o", tmp_path / "page.pdf")
    assert "--port 80 is for --live" in complaint(capsys, "report", run, "--port", 80)
    assert "--sample 5 is for a page in a file" in complaint(capsys, "report", run, "--live", "--sample", 5)
    assert "there is no such folder" in complaint(capsys, "report", tmp_path / "none")
    assert "holds no run" in complaint(capsys, "report", tmp_path / "empty")
    assert "there is no folder nowhere" in complaint(capsys, "report", "nowhere", "--live")
    assert "--port" in complaint(capsys, "report", run, "--live", "--port", 70000)
    code, _, err = hrnn(capsys, "report", tmp_path / "none", tmp_path / "empty")
    assert (code, err.splitlines()[-1]) == (2, "hrnn: none of these can be shown")
    (tmp_path / "file").write_text("")
    assert "--output" in complaint(capsys, "report", run, "-o", tmp_path / "file" / "page.html")


def test_the_folder_of_the_page_is_made(tmp_path, capsys):
    page = tmp_path / "new" / "page.html"
    assert hrnn(capsys, "report", write(tmp_path / "run"), "-o", page) == (0, f"{page}\n", "")


def test_names_that_are_no_text_are_shown_as_numbers(tmp_path, capsys):
    odd = os.fsdecode(b"odd\xffname")
    write(tmp_path / "good")
    write(tmp_path / odd)
    page = tmp_path / "page.html"
    assert hrnn(capsys, "report", tmp_path, "-o", page)[0] == 0
    assert "odd\\udcffname" in page.read_text()


def test_without_the_extra(tmp_path, capsys, monkeypatch):
    run = write(tmp_path / "run")
    for package in ("plotly", "jinja2"):
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, package, None)
            said = complaint(capsys, "report", run, "-o", tmp_path / "page.html")
            assert said == "hrnn: hrnn report needs hrnn[report]; pip install 'hrnn[report]'"
            with pytest.raises(UserError, match="needs hrnn"):
                render(gather([str(run)], Reader()))


def test_a_port_in_use_is_one_sentence(tmp_path, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = complaint(capsys, "report", write(tmp_path / "run"), "--live", "--port", port)
    assert f"--port is {port}, which cannot be had (Address already in use); give another, or 0 for any" in said


@pytest.fixture
def server(tmp_path):
    """Of a folder with one run."""
    write(tmp_path / "runs" / "one")
    reader = Reader()
    made = Server(0, lambda: render(gather([str(tmp_path / "runs")], reader), plotly=PLOTLY, live=True))
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def asked(server, path="/", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    return answer, content


def test_the_live_page_follows_the_journals(server, tmp_path):
    answer, page = asked(server)
    assert answer.status == 200
    tag = answer.headers["ETag"]
    assert '"update":[1,2,3' in page
    assert asked(server, **{"If-None-Match": tag})[0].status == 304
    with open(tmp_path / "runs" / "one" / "journal.jsonl", "a") as file:
        file.write(json.dumps({**records(21)[-1], "loss": 0.125}) + "\n")
    answer, page = asked(server, **{"If-None-Match": tag})
    assert answer.status == 200
    assert "0.125" in page
    write(tmp_path / "runs" / "two", seed=1)
    assert "2 runs on pixels" in asked(server)[1]
    (tmp_path / "runs" / "one" / "config.json").write_text("{")
    assert "What could not be read" in asked(server)[1]


def test_only_its_own_machine_and_nothing_else_is_served(server):
    assert server.server_address[0] == "127.0.0.1"
    assert asked(server, f"/{PLOTLY}")[1] == plotly_script()
    assert asked(server, "/etc/passwd")[0].status == 404
    assert asked(server, "/../journal.jsonl")[0].status == 404
    assert asked(server, Host="evil.example:80")[0].status == 403
    assert asked(server, Host="localhost")[0].status == 200  # port 80, which browsers leave out


def test_a_browser_that_goes_away_is_no_news(server, capfd):
    server.daemon_threads = False  # so that the end waits for them
    for _ in range(3):
        with socket.create_connection(server.server_address) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closes by a reset
    assert asked(server)[0].status == 200
    server.shutdown()
    server.server_close()
    assert capfd.readouterr().err == ""


def test_the_policy_of_the_live_page(server):
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', asked(server)[1])[1]
    assert "connect-src &#39;self&#39;" in policy


def test_an_empty_folder_is_waited_for(tmp_path):
    (tmp_path / "runs").mkdir()
    assert "No runs yet" in render(gather([str(tmp_path / "runs")], Reader()), plotly=PLOTLY, live=True)


def test_interrupting_the_live_page(tmp_path):
    (tmp_path / "runs").mkdir()
    command = [sys.executable, "-m", "hrnn", "report", str(tmp_path / "runs"), "--live", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        assert re.match(r"http://127\.0\.0\.1:\d+/ shows ", line)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (130, "hrnn: interrupted\n")
