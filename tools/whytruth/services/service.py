"""Service is a small web service with planted faults: service.py ADDRESS JOB FAULT, where FAULT is 0 or 1."""
import copy
import http.server
import sqlite3
import sys
import threading
import time

address, job, fault = sys.argv[1], sys.argv[2], sys.argv[3] == "1"
host, port = address.split(":")
own = threading.local()


def save():
    """Add a row to a database, whose commits are synced to the disk or not."""
    if not hasattr(own, "database"):
        own.database = sqlite3.connect(f"orders-{port}.db", isolation_level=None, timeout=30)
        own.database.execute("PRAGMA journal_mode=WAL")
        own.database.execute("PRAGMA synchronous=" + ("FULL" if fault else "OFF"))
        own.database.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT)")
    own.database.execute("INSERT INTO orders (item) VALUES ('an item')")
    return b"saved\n"


def single():
    """Wait for a data source."""
    time.sleep(0.003)
    return b"found\n"


def unused():
    """Compute a little; with the fault only another path is slow."""
    return b"%d\n" % sum(range(1000))


def forecast():
    """Compute a little; with the fault a thread beside computes all the time."""
    return b"%d\n" % sum(range(1000))


def compute():
    """Hold the interpreter."""
    n = 0
    while True:
        n = (n * 31 + 7) % 1000003


tree = {f"part {i}": {"name": "a part", "limits": [i, i + 1]} for i in range(400)}


def settings():
    """Read one setting, from the tree of all or from a copy of it."""
    here = copy.deepcopy(tree) if fault else tree
    return b"%d\n" % here["part 7"]["limits"][0]


def orders():
    """Count the orders of one customer, which an index finds or a scan of 20,000 rows."""
    if not hasattr(own, "database"):
        own.database = sqlite3.connect(f"customers-{port}.db", timeout=30)
    found = own.database.execute("SELECT count(*) FROM orders WHERE customer = 'customer 4711'").fetchone()
    return b"%d\n" % found[0]


def fill():
    """Write the orders of 20,000 customers."""
    database = sqlite3.connect(f"customers-{port}.db")
    database.execute("CREATE TABLE orders (customer TEXT, item TEXT)")
    if not fault:
        database.execute("CREATE INDEX by_customer ON orders (customer)")
    rows = ((f"customer {i}", "an item") for i in range(20_000))
    database.executemany("INSERT INTO orders VALUES (?, ?)", rows)
    database.commit()
    database.close()


jobs = {
    "save": save, "single": single, "unused": unused, "forecast": forecast, "settings": settings, "orders": orders,
}


class Handler(http.server.BaseHTTPRequestHandler):
    # A server with one thread must not wait for a kept connection's next request.
    protocol_version = "HTTP/1.0" if job == "single" else "HTTP/1.1"
    wbufsize = -1  # one write per answer

    def do_GET(self):
        if fault and self.path == "/export":
            time.sleep(0.5)
        text = jobs[job]()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


if job == "forecast" and fault:
    threading.Thread(target=compute, daemon=True).start()
if job == "orders":
    fill()
one_thread = job == "single" and fault
kind = http.server.HTTPServer if one_thread else http.server.ThreadingHTTPServer
kind.request_queue_size = 128
kind((host, int(port)), Handler).serve_forever()
