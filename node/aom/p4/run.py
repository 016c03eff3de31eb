#!/usr/bin/env python3
"""Compiles p4/sequencer_v1model.p4 and runs the suite-3 vectors on BMv2. Opt-in: needs p4c-bm2-ss and simple_switch.

Prints "skipped" and exits with 0 where one of them is missing; exits with 1 if a vector differs. Needs no root: ports
are pcap files. Groups of more than four receivers are left out, because their copies need a control plane.
"""

import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PORT = 0xA04D
TIMEOUT = 60


def frame(datagram):
    """Ethernet, IPv4 and UDP around a datagram. The program checks neither checksum."""
    ethernet = bytes.fromhex("01005e0100070200000000020800")
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28 + len(datagram), 1, 0, 64, 17, 0, bytes([10, 0, 0, 2]), bytes([239, 1, 0, 7]))
    return ethernet + ip + struct.pack(">HHHH", 50000, PORT, 8 + len(datagram), 0) + datagram


def write_pcap(path, frames):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number, data in enumerate(frames):
            file.write(struct.pack("<IIII", number, 0, len(data), len(data)) + data)


def read_pcap(path):
    """Whole frames of a file that another process may still write."""
    data = path.read_bytes() if path.exists() else b""
    frames, at = [], 24
    while at + 16 <= len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        if at + 16 + length > len(data):
            break
        frames.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    return frames


def entries(vector):
    """The tables of a vector as macros."""
    groups, keys = [], [[], [], [], []]
    for index, group in enumerate(vector["groups"]):
        if not group["active"]:
            continue
        before = group["first_seq"] - 1
        groups.append(f"{group['group']}: stamp({index}, {group['epoch']}, {group['receivers']}, {before}, 0, 0);")
        for receiver, key in enumerate(group["tag_keys"]):
            k0, k1 = struct.unpack("<II", bytes.fromhex(key))
            keys[receiver].append(f"({index}, 0): load_{receiver}({k0}, {k1});")
    block = lambda lines: f"const entries = {{ {' '.join(lines)} }}" if lines else ""
    macros = [f"#define GROUP_ENTRIES {block(groups)}"]
    macros += [f"#define KEY_ENTRIES_{lane} {block(lines)}" for lane, lines in enumerate(keys)]
    return "\n".join(macros) + '\n#include "sequencer_v1model.p4"\n'


def run(vector, folder):
    (folder / "main.p4").write_text(entries(vector))
    subprocess.run(["p4c-bm2-ss", f"-I{HERE / 'p4'}", "-o", folder / "main.json", folder / "main.p4"], check=True)
    write_pcap(folder / "0_in.pcap", [frame(bytes.fromhex(step["datagram"])) for step in vector["steps"]])
    write_pcap(folder / "1_in.pcap", [])
    expected = [frame(bytes.fromhex(out)) for step in vector["steps"] for out in step["out"]]
    # With --use-files ports are NAME_in.pcap and NAME_out.pcap. Receivers are at port 1.
    switch = subprocess.Popen(["simple_switch", "--use-files", "0", "-i", "0@0", "-i", "1@1", "main.json"], cwd=folder, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + TIMEOUT
        while len(read_pcap(folder / "1_out.pcap")) < len(expected) and time.monotonic() < end:
            time.sleep(0.1)
        # A frame too many would follow soon.
        time.sleep(0.5)
        return read_pcap(folder / "1_out.pcap") == expected
    finally:
        switch.terminate()
        switch.wait()


def main():
    missing = [tool for tool in ("p4c-bm2-ss", "simple_switch") if not shutil.which(tool)]
    if missing:
        print(f"skipped: {' and '.join(missing)} missing; the P4 program was not compiled")
        return
    vectors = json.loads((HERE.parent / "vectors" / "aom-1.json").read_text())["stamp"]
    failed = 0
    for vector in vectors:
        if "p4" not in vector["producers"]:
            continue
        if any(group["receivers"] > 4 for group in vector["groups"]):
            print(f"left out  {vector['id']}: more than four receivers")
            continue
        with tempfile.TemporaryDirectory() as folder:
            passed = run(vector, pathlib.Path(folder))
        print(f"{'passed' if passed else 'FAILED':9} {vector['id']}")
        failed += not passed
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
