#!/usr/bin/env python3
"""Writes aom-1.json: the test vectors of the packet format aom/1.

Uses the Python standard library only, and shares no code with the product. All primitives except SHA-256 and
HMAC are written here from their specifications, for clarity and not for speed or secrecy:
  SipHash-2-4 (64 and 128 bits of output)   Aumasson, Bernstein 2012
  HalfSipHash-2-4 (64 bits of output)       reference implementation of the same authors
  X25519 (RFC 7748), HKDF (RFC 5869), Ed25519 (RFC 8032), ECDSA on secp256k1 (SEC 1) with nonces of RFC 6979

  generate.py            writes aom-1.json beside this file
  generate.py --check    exits with 1 if the file differs from what would be written
"""

import hashlib
import hmac
import json
import pathlib
import sys

FILE = pathlib.Path(__file__).with_name("aom-1.json")

# ---------------------------------------------------------------------------------------------- keyed hashes


def sip(key, data, word_bytes, initial, rotations, flavour, finals):
    """SipHash and HalfSipHash with 2 and 4 rounds. `finals` lists the XOR into v1 before each run of output."""
    bits = 8 * word_bytes
    mask = (1 << bits) - 1
    k0, k1 = (int.from_bytes(key[i * word_bytes : (i + 1) * word_bytes], "little") for i in (0, 1))
    v0, v1, v2, v3 = initial[0] ^ k0, initial[1] ^ k1, initial[2] ^ k0, initial[3] ^ k1
    v1 ^= flavour[0]
    a, b, c, d, e, f = rotations

    def rotate(x, n):
        return ((x << n) | (x >> (bits - n))) & mask

    def rounds(count):
        nonlocal v0, v1, v2, v3
        for _ in range(count):
            v0 = (v0 + v1) & mask
            v1 = rotate(v1, a) ^ v0
            v0 = rotate(v0, b)
            v2 = (v2 + v3) & mask
            v3 = rotate(v3, c) ^ v2
            v0 = (v0 + v3) & mask
            v3 = rotate(v3, d) ^ v0
            v2 = (v2 + v1) & mask
            v1 = rotate(v1, e) ^ v2
            v2 = rotate(v2, f)

    padded = data + bytes(-(len(data) + 1) % word_bytes) + bytes([len(data) & 0xFF])
    for at in range(0, len(padded), word_bytes):
        word = int.from_bytes(padded[at : at + word_bytes], "little")
        v3 ^= word
        rounds(2)
        v0 ^= word
    v2 ^= flavour[1]
    out = b""
    for final in finals:
        v1 ^= final
        rounds(4)
        out += ((v1 ^ v3) if word_bytes == 4 else (v0 ^ v1 ^ v2 ^ v3)).to_bytes(word_bytes, "little")
    return out


SIP_INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
SIP_ROTATIONS = (13, 32, 16, 21, 17, 32)
HALF_INITIAL = (0, 0, 0x6C796765, 0x74656462)
HALF_ROTATIONS = (5, 16, 8, 7, 13, 16)


def siphash64(key, data):
    return sip(key, data, 8, SIP_INITIAL, SIP_ROTATIONS, (0, 0xFF), (0,))


def siphash128(key, data):
    return sip(key, data, 8, SIP_INITIAL, SIP_ROTATIONS, (0xEE, 0xEE), (0, 0xDD))


def halfsiphash64(key, data):
    return sip(key, data, 4, HALF_INITIAL, HALF_ROTATIONS, (0xEE, 0xEE), (0, 0xDD))


# ------------------------------------------------------------------------------------------------- X25519, HKDF

P25519 = 2**255 - 19


def x25519(secret, public):
    k = bytearray(secret)
    k[0] &= 248
    k[31] = (k[31] & 127) | 64
    scalar = int.from_bytes(k, "little")
    x1 = (int.from_bytes(public, "little") & ((1 << 255) - 1)) % P25519
    x2, z2, x3, z3, swap = 1, 0, x1, 1, 0
    for t in reversed(range(255)):
        bit = (scalar >> t) & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % P25519, b * b % P25519, d * a % P25519, c * b % P25519
        x3, z3 = (da + cb) ** 2 % P25519, x1 * (da - cb) ** 2 % P25519
        e = aa - bb
        x2, z2 = aa * bb % P25519, e * (aa + 121665 * e) % P25519
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, P25519 - 2, P25519) % P25519).to_bytes(32, "little")


X25519_BASE = (9).to_bytes(32, "little")


def hkdf_sha256(salt, ikm, info, length):
    assert length <= 32
    prk = hmac.new(salt, ikm, hashlib.sha256).digest()
    return hmac.new(prk, info + b"\x01", hashlib.sha256).digest()[:length]


# ------------------------------------------------------------------------------------------------- secp256k1

P256K1 = 2**256 - 2**32 - 977
N256K1 = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
G256K1 = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)


def weierstrass_add(p, q):
    if p is None or q is None:
        return p or q
    if p[0] == q[0]:
        if (p[1] + q[1]) % P256K1 == 0:
            return None
        slope = 3 * p[0] * p[0] * pow(2 * p[1], -1, P256K1)
    else:
        slope = (q[1] - p[1]) * pow(q[0] - p[0], -1, P256K1)
    x = (slope * slope - p[0] - q[0]) % P256K1
    return x, (slope * (p[0] - x) - p[1]) % P256K1


def weierstrass_multiply(k, p):
    out = None
    while k:
        if k & 1:
            out = weierstrass_add(out, p)
        p = weierstrass_add(p, p)
        k >>= 1
    return out


def rfc6979(secret, prehash):
    """Nonces in the order in which RFC 6979 tries them."""
    seed = secret + (int.from_bytes(prehash, "big") % N256K1).to_bytes(32, "big")
    mac = lambda key, data: hmac.new(key, data, hashlib.sha256).digest()
    v, k = b"\x01" * 32, b"\x00" * 32
    k = mac(k, v + b"\x00" + seed)
    v = mac(k, v)
    k = mac(k, v + b"\x01" + seed)
    v = mac(k, v)
    while True:
        v = mac(k, v)
        nonce = int.from_bytes(v, "big")
        if 0 < nonce < N256K1:
            yield nonce
        k = mac(k, v + b"\x00")
        v = mac(k, v)


def ecdsa_sign(secret, prehash):
    """Signature r || s with low s, and the presignature (r, k^-1) that gives it."""
    d, z = int.from_bytes(secret, "big"), int.from_bytes(prehash, "big")
    for nonce in rfc6979(secret, prehash):
        r = weierstrass_multiply(nonce, G256K1)[0] % N256K1
        inverse = pow(nonce, -1, N256K1)
        s = inverse * (z + r * d) % N256K1
        if r and s:
            s = min(s, N256K1 - s)
            assert ecdsa_verify(secret, prehash, r, s)
            return r.to_bytes(32, "big") + s.to_bytes(32, "big"), (r, inverse)


def ecdsa_verify(secret, prehash, r, s):
    public, w = weierstrass_multiply(int.from_bytes(secret, "big"), G256K1), pow(s, -1, N256K1)
    left = weierstrass_multiply(int.from_bytes(prehash, "big") * w % N256K1, G256K1)
    return weierstrass_add(left, weierstrass_multiply(r * w % N256K1, public))[0] % N256K1 == r


def ecdsa_public(secret):
    x, y = weierstrass_multiply(int.from_bytes(secret, "big"), G256K1)
    return bytes([2 + (y & 1)]) + x.to_bytes(32, "big")


# --------------------------------------------------------------------------------------------------- Ed25519

L25519 = 2**252 + 27742317777372353535851937790883648493
D25519 = -121665 * pow(121666, -1, P25519) % P25519
B25519 = (15112221349535400772501151409588531511454012693041857206046113283949847762202, 4 * pow(5, -1, P25519) % P25519)


def edwards_add(p, q):
    product = D25519 * p[0] * q[0] * p[1] * q[1] % P25519
    x = (p[0] * q[1] + q[0] * p[1]) * pow(1 + product, -1, P25519)
    y = (p[1] * q[1] + p[0] * q[0]) * pow(1 - product, -1, P25519)
    return x % P25519, y % P25519


def edwards_multiply(k, p):
    out = (0, 1)
    while k:
        if k & 1:
            out = edwards_add(out, p)
        p = edwards_add(p, p)
        k >>= 1
    return out


def edwards_encode(p):
    return (p[1] | (p[0] & 1) << 255).to_bytes(32, "little")


def ed25519_expand(secret):
    digest = bytearray(hashlib.sha512(secret).digest())
    digest[0] &= 248
    digest[31] = (digest[31] & 127) | 64
    return int.from_bytes(digest[:32], "little"), bytes(digest[32:])


def ed25519_public(secret):
    return edwards_encode(edwards_multiply(ed25519_expand(secret)[0], B25519))


def ed25519_sign(secret, message):
    scalar, prefix = ed25519_expand(secret)
    public = ed25519_public(secret)
    nonce = int.from_bytes(hashlib.sha512(prefix + message).digest(), "little") % L25519
    point = edwards_encode(edwards_multiply(nonce, B25519))
    challenge = int.from_bytes(hashlib.sha512(point + public + message).digest(), "little") % L25519
    return point + ((nonce + challenge * scalar) % L25519).to_bytes(32, "little")


def check_primitives():
    """Published answers, so that an error here does not become the standard."""
    count = bytes(range(64))
    assert siphash64(count[:16], count[:15]).hex() == "e545be4961ca29a1"
    assert siphash128(count[:16], b"").hex() == "a3817f04ba25a8e66df67214c7550293"
    assert halfsiphash64(count[:8], b"").hex() == "218d1f59b9b83cc8"
    # RFC 7748, section 5.2, one iteration
    assert x25519(X25519_BASE, X25519_BASE).hex() == "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"
    # RFC 5869, case 1
    okm = hkdf_sha256(count[:13], b"\x0b" * 22, bytes(range(0xF0, 0xFA)), 32)
    assert okm.hex() == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
    # RFC 8032, section 7.1, test 1
    secret = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    assert ed25519_public(secret).hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert ed25519_sign(secret, b"").hex() == (
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )
    # The widely used answer for secp256k1 with nonces of RFC 6979: key 1, "Satoshi Nakamoto"
    signature, _ = ecdsa_sign((1).to_bytes(32, "big"), hashlib.sha256(b"Satoshi Nakamoto").digest())
    assert signature.hex() == (
        "934b1ea10a4b3c1757e2b0c017d0b6143ce3c9a7e6a4a49860d7a6ab210ee3d82442ce9d2b916064108014783e923ec36b49743e2ffa1c4496f01a512aafd9e5"
    )


# ------------------------------------------------------------------------------------------------ the format aom/1

MAGIC, VERSION, REQUEST, HM, PK = 0xA04D, 1, 0, 1, 2
HEADER, MAX_PAYLOAD, LAST_SEQ = 160, 8800, 2**64 - 1
SUITES = {1: (HM, 16, siphash64), 2: (HM, 16, siphash128), 3: (HM, 8, halfsiphash64), 4: (PK, 32, None), 5: (PK, 32, None)}


def u(value, length):
    return value.to_bytes(length, "big")


def digest_of(group, payload):
    return hashlib.sha256(b"corniche/aom/1/payload" + u(group, 4) + payload).digest()


def genesis_of(chain, group, epoch):
    return hashlib.sha256(b"corniche/aom/1/genesis" + u(chain, 8) + u(group, 4) + u(epoch, 4)).digest()


def tag_key_of(shared, chain, group, epoch, receiver, suite):
    info = u(chain, 8) + u(group, 4) + u(epoch, 4) + u(receiver, 2) + u(suite, 1)
    return hkdf_sha256(b"corniche/aom/1/key", shared, info, SUITES[suite][1])


def request(group, payload, magic=MAGIC, version=VERSION, kind=REQUEST, reserved=0, digest=None, fill=0):
    """A sender's datagram. `fill` is written to the fields of the sequencer, which a correct sender leaves zero."""
    q = lambda length: bytes([fill]) * length
    front = u(magic, 2) + u(version, 1) + u(kind, 1) + u(group, 4) + q(4) + q(3) + u(reserved, 1) + q(8)
    return front + (digest or digest_of(group, payload)) + q(64) + q(8) + q(32) + payload


class Sequencer:
    """One group of one sequencer, as the packet format defines it."""

    def __init__(self, chain, group, epoch, suite, receivers=0, first_seq=1, sign_every=32, active=True, seed="a"):
        self.chain, self.group, self.epoch, self.suite, self.receivers = chain, group, epoch, suite, receivers
        self.first_seq, self.sign_every, self.active = first_seq, sign_every, active
        self.kind, self.key_length, self.mac = SUITES[suite]
        self.next, self.since_signed, self.presignatures = first_seq, None, []
        secret = lambda name: hashlib.sha256(f"aom-1 vector secret {seed} {name}".encode()).digest()
        if self.kind == HM:
            self.secret, self.receiver_secrets = secret("sequencer"), [secret(f"receiver {i}") for i in range(receivers)]
            publics = [x25519(s, X25519_BASE) for s in self.receiver_secrets]
            self.receiver_publics = publics
            self.keys = [tag_key_of(x25519(self.secret, p), chain, group, epoch, i, suite) for i, p in enumerate(publics)]
        else:
            self.secret = secret("signer")
            self.public = (ecdsa_public if suite == 4 else ed25519_public)(self.secret)
            self.prev = (0, genesis_of(chain, group, epoch))
            if first_seq != 1:
                # The vector begins inside an epoch, right after a signed packet.
                self.prev, self.since_signed = (first_seq - 1, hashlib.sha256(b"some packet").digest()), 1
        self.start = self.state()

    def state(self):
        if self.kind == HM:
            return {}
        return {"prev_seq": self.prev[0], "prev_hash": self.prev[1].hex(), "since_signed": self.since_signed or 0}

    def config(self):
        out = {"group": self.group, "epoch": self.epoch, "active": self.active, "suite": self.suite}
        out |= {"receivers": self.receivers, "first_seq": self.first_seq}
        if self.kind == HM:
            out["sequencer_x25519_secret"] = self.secret.hex()
            out["receiver_x25519_publics"] = [p.hex() for p in self.receiver_publics]
            out["tag_keys"] = [k.hex() for k in self.keys]
        else:
            out |= {"sign_every": self.sign_every, "signing_secret": self.secret.hex(), "public_key": self.public.hex()}
            out["chain"] = self.start
            if self.suite == 4:
                out["presignatures"] = [{"r": u(r, 32).hex(), "k_inverse": u(k, 32).hex()} for r, k in self.presignatures]
        return out

    def stamp(self, datagram, lost=False, flush=False):
        """Datagrams that leave for one request, and whether they are signed."""
        if self.next > LAST_SEQ:
            return [], False
        seq, self.next = self.next, self.next + 1
        if lost:
            return [], False
        digest, payload = datagram[24:56], datagram[HEADER:]
        head = lambda subgroup: (
            u(MAGIC, 2) + u(VERSION, 1) + u(self.kind, 1) + u(self.group, 4) + u(self.epoch, 4)
            + u(subgroup, 1) + u(self.receivers, 1) + u(self.suite, 1) + u(0, 1) + u(seq, 8) + digest
        )  # fmt: skip
        if self.kind == HM:
            out = []
            for subgroup in range((self.receivers + 3) // 4):
                header = head(subgroup)
                tags = b"".join(self.mac(key, header) for key in self.keys[4 * subgroup : 4 * subgroup + 4])
                out.append(header + tags.ljust(64, b"\0") + bytes(8 + 32) + payload)
            return out, False
        link = u(self.prev[0], 8) + self.prev[1]
        header_hash = hashlib.sha256(head(0) + link).digest()
        signed = flush or self.since_signed is None or self.since_signed == self.sign_every
        authenticator = self.sign(header_hash) if signed else bytes(64)
        self.prev = (seq, header_hash)
        self.since_signed = 1 if signed else self.since_signed + 1
        return [head(0) + authenticator + link + payload], signed

    def sign(self, header_hash):
        if self.suite == 5:
            return ed25519_sign(self.secret, header_hash)
        signature, presignature = ecdsa_sign(self.secret, header_hash)
        self.presignatures.append(presignature)
        return signature


# ------------------------------------------------------------------------------------------------------ the vectors

CHAIN = 0x0123456789ABCDEF


def noise(length, name="payload"):
    return hashlib.shake_128(name.encode()).digest(length)


def producers(suite, receivers=0, largest=0):
    """Producers that must run a vector of this suite."""
    out = ["wire", "sequencer"]
    if suite == 1:
        # The XDP program sends one packet for each it receives, hence one subgroup.
        out += (["xdp"] if receivers <= 4 and largest <= 1232 else []) + ["rtl"]
    if suite == 3:
        out += ["p4"]
    if suite == 4:
        out += ["rtl"]
    return out


class Vector:
    """Steps of a sequencer with one or more groups."""

    def __init__(self, name, about, *groups):
        self.name, self.about, self.groups, self.steps, self.largest = name, about, groups, [], 0
        self.by_id = {g.group: g for g in groups}

    def drop(self, datagram, reason):
        self.steps.append({"op": "request", "datagram": datagram.hex(), "out": [], "drop": reason})
        return self

    def send(self, payload=b"", group=None, datagram=None, op="request", lost=False, flush=False):
        sequencer = self.by_id[group] if group is not None else self.groups[0]
        datagram = datagram or request(sequencer.group, payload)
        self.largest = max(self.largest, len(datagram) - HEADER)
        stopped = sequencer.next > LAST_SEQ
        out, signed = sequencer.stamp(datagram, lost, flush)
        step = {"op": op, "datagram": datagram.hex(), "out": [d.hex() for d in out]}
        if op == "heartbeat":
            step["group"] = sequencer.group
        if stopped:
            step["drop"] = "exhausted"
        if sequencer.kind == PK:
            step |= {"flush": flush, "lost": lost, "signed": signed}
        self.steps.append(step)
        return self

    def heartbeat(self, group=None, flush=False):
        return self.send(group=group, op="heartbeat", flush=flush)

    def json(self):
        who = producers(self.groups[0].suite, max(g.receivers for g in self.groups), self.largest)
        head = {"id": self.name, "about": self.about, "producers": who, "chain_id": CHAIN}
        return head | {"groups": [g.config() for g in self.groups], "steps": self.steps}


def stamping():
    out = []

    def add(name, about, *groups):
        out.append(Vector(name, about, *groups))
        return out[-1]

    # every HM suite, group size and payload size
    for suite in (1, 2, 3):
        for n in (1, 4, 5, 7, 16, 64):
            v = add(f"hm-s{suite}-n{n}", f"suite {suite} with {n} receivers", Sequencer(CHAIN, 7, 3, suite, n))
            v.send(noise(64))
            if n <= 7:
                v.send(b"").send(b"\x5a")
        v = add(f"hm-s{suite}-payloads", "payloads of 0, 1, 64 and 1,232 bytes", Sequencer(CHAIN, 1, 1, suite, 4))
        for length in (0, 1, 64, 1232):
            v.send(noise(length))
        v = add(f"hm-s{suite}-seq-32-bits", "the sequence number passes 2^32", Sequencer(CHAIN, 7, 3, suite, 4, 2**32 - 1))
        v.send(noise(64)).send(noise(64)).send(noise(64))
        v = add(f"hm-s{suite}-seq-end", "2^64 - 1 is stamped, then the sequencer stops", Sequencer(CHAIN, 7, 3, suite, 4, LAST_SEQ - 1))
        v.send(noise(64)).send(noise(64)).send(noise(64)).heartbeat()
        v = add(f"hm-s{suite}-heartbeats", "heartbeats take numbers like requests", Sequencer(CHAIN, 7, 3, suite, 4))
        v.send(noise(64)).heartbeat().heartbeat().send(noise(8)).heartbeat()
        v = add(f"hm-s{suite}-q-fields", "what a sender writes into fields of the sequencer is overwritten", Sequencer(CHAIN, 7, 3, suite, 3))
        v.send(datagram=request(7, noise(64), fill=0xFF)).send(datagram=request(7, b"", fill=0x01))
        v = add(f"hm-s{suite}-extremes", "group and epoch 2^32 - 1", Sequencer(CHAIN, 2**32 - 1, 2**32 - 1, suite, 4))
        v.send(noise(64))
        v = add(
            f"hm-s{suite}-two-groups", "each group has its own counter, epoch and keys",
            Sequencer(CHAIN, 7, 3, suite, 4), Sequencer(CHAIN, 9, 4, suite, 2, 100, seed="b"),
        )  # fmt: skip
        v.send(noise(64), 7).send(noise(64), 9).send(noise(64), 9).send(noise(64), 7).heartbeat(9)

    # PK
    for suite in (4, 5):
        v = add(f"pk-s{suite}-every-1", "every packet is signed", Sequencer(CHAIN, 7, 3, suite, sign_every=1))
        v.send(noise(64)).send(b"").send(noise(1))
        v = add(f"pk-s{suite}-every-3", "the first packet and every third after it are signed", Sequencer(CHAIN, 7, 3, suite, sign_every=3))
        for length in (0, 1, 64, 1232, 5, 6, 7, 8):
            v.send(noise(length))
        v = add(f"pk-s{suite}-every-32", "the default ratio", Sequencer(CHAIN, 7, 3, suite))
        for length in range(34):
            v.send(noise(length))
        v = add(f"pk-s{suite}-holes", "a lost packet keeps its number and has no part in the chain", Sequencer(CHAIN, 7, 3, suite, sign_every=3))
        v.send(noise(64)).send(noise(65), lost=True).send(noise(66)).send(noise(67), lost=True).send(noise(68), lost=True)
        v.send(noise(69)).send(noise(70)).send(noise(71)).send(noise(72), lost=True)
        v = add(f"pk-s{suite}-first-lost", "the first packet sent is signed, even if its number is not 1", Sequencer(CHAIN, 7, 3, suite))
        v.send(noise(64), lost=True).send(noise(65)).send(noise(66))
        v = add(f"pk-s{suite}-heartbeats", "a flush signs a heartbeat; the count of unsigned packets begins again", Sequencer(CHAIN, 7, 3, suite, sign_every=3))
        v.send(noise(64)).send(noise(65)).heartbeat(flush=True).heartbeat().heartbeat().send(noise(66)).send(noise(67))
        v = add(f"pk-s{suite}-seq-32-bits", "the sequence number passes 2^32", Sequencer(CHAIN, 7, 3, suite, first_seq=2**32 - 1, sign_every=2))
        v.send(noise(64)).send(noise(65)).send(noise(66))
        v = add(f"pk-s{suite}-seq-end", "2^64 - 1 is stamped, then the sequencer stops", Sequencer(CHAIN, 7, 3, suite, first_seq=LAST_SEQ - 1, sign_every=2))
        v.send(noise(64)).send(noise(65)).send(noise(66)).heartbeat(flush=True)
        v = add(f"pk-s{suite}-q-fields", "what a sender writes into fields of the sequencer is overwritten", Sequencer(CHAIN, 7, 3, suite))
        v.send(datagram=request(7, noise(64), fill=0xFF)).send(datagram=request(7, b"", fill=0x01))
        v = add(
            f"pk-s{suite}-two-groups", "each group has its own chain",
            Sequencer(CHAIN, 7, 3, suite), Sequencer(CHAIN, 9, 3, suite, seed="b"),
        )  # fmt: skip
        v.send(noise(64), 7).send(noise(64), 9).send(noise(64), 9).send(noise(64), 7)

    # requests that no sequencer stamps; a good one before and after shows that no number is used up
    for suite in (1, 2, 3, 4, 5):
        receivers = 4 if SUITES[suite][0] == HM else 0
        good = request(7, noise(64))
        bad = [
            ("magic", request(7, noise(64), magic=0xA04C), "magic"),
            ("version", request(7, noise(64), version=2), "version"),
            ("kind-hm", request(7, noise(64), kind=HM), "kind"),
            ("kind-pk", request(7, noise(64), kind=PK), "kind"),
            ("kind-unknown", request(7, noise(64), kind=4), "kind"),
            ("reserved", request(7, noise(64), reserved=1), "reserved"),
            ("group", request(8, noise(64)), "group"),
            ("empty-datagram", b"", "short"),
            ("short-56", good[:56], "short"),
            ("short-159", good[:159], "short"),
        ]
        for name, datagram, reason in bad:
            v = add(f"drop-s{suite}-{name}", f"dropped: {reason}", Sequencer(CHAIN, 7, 3, suite, receivers))
            v.send(noise(64)).drop(datagram, reason).send(noise(65))
        v = add(f"drop-s{suite}-inactive", "dropped: the group is not active", Sequencer(CHAIN, 7, 3, suite, receivers, active=False))
        v.drop(good, "inactive")
    for suite in (1, 5):
        v = add(f"largest-s{suite}", "8,800 bytes of payload are stamped, 8,801 are dropped", Sequencer(CHAIN, 7, 3, suite, 4 if suite == 1 else 0))
        v.send(noise(MAX_PAYLOAD)).drop(request(7, noise(MAX_PAYLOAD + 1)), "long").send(noise(1))
    vectors = [v.json() for v in out]
    for vector in vectors:
        if vector["id"] == "largest-s1":
            # Frames of this size need multi-buffer XDP; the RTL takes its limit from the MAC in front of it.
            vector["producers"] = ["wire", "sequencer"]
    return vectors


def derivation():
    out = []
    for name, chain, group, epoch, receiver, suite in [
        ("s1", CHAIN, 7, 3, 0, 1), ("s2", CHAIN, 7, 3, 0, 2), ("s3", CHAIN, 7, 3, 0, 3), ("receiver", CHAIN, 7, 3, 63, 1),
        ("group", CHAIN, 8, 3, 0, 1), ("epoch", CHAIN, 7, 4, 0, 1), ("chain", 1, 7, 3, 0, 1), ("zeros", 0, 0, 0, 0, 1),
        ("extremes", 2**64 - 1, 2**32 - 1, 2**32 - 1, 63, 3),
    ]:  # fmt: skip
        ours, theirs = hashlib.sha256(b"sequencer " + name.encode()).digest(), hashlib.sha256(b"receiver " + name.encode()).digest()
        publics = x25519(ours, X25519_BASE), x25519(theirs, X25519_BASE)
        shared = x25519(ours, publics[1])
        assert shared == x25519(theirs, publics[0])
        out.append({
            "id": f"key-{name}", "producers": ["wire"], "chain_id": chain, "group": group, "epoch": epoch,
            "receiver": receiver, "suite": suite, "sequencer_secret": ours.hex(), "sequencer_public": publics[0].hex(),
            "receiver_secret": theirs.hex(), "receiver_public": publics[1].hex(), "shared_secret": shared.hex(),
            "tag_key": tag_key_of(shared, chain, group, epoch, receiver, suite).hex(),
        })  # fmt: skip
    return out


def flip(datagram, byte, bit=0):
    out = bytearray(datagram)
    out[byte] ^= 1 << bit
    return bytes(out)


def receiving():
    """Datagrams as one receiver sees them."""
    out = []

    def add(name, about, sequencer, receiver, datagram, reason=None):
        vector = {"id": name, "about": about, "producers": ["wire"], "chain_id": CHAIN, "group": sequencer.group}
        vector |= {"epoch": sequencer.epoch, "suite": sequencer.suite, "receivers": sequencer.receivers}
        if sequencer.kind == HM:
            vector |= {"receiver": receiver, "tag_key": sequencer.keys[receiver].hex()}
        else:
            vector["public_key"] = sequencer.public.hex()
        vector |= {"datagram": datagram.hex(), "accept": reason is None}
        if reason:
            vector["reason"] = reason
        out.append(vector)

    for suite in (1, 2, 3):
        s = Sequencer(CHAIN, 7, 3, suite, 7)
        first, second = s.stamp(request(7, noise(64)))[0]
        tag = {1: 8, 2: 16, 3: 8}[suite]
        name = lambda case: f"receive-s{suite}-{case}"
        add(name("good-0"), "receiver 0, subgroup 0", s, 0, first)
        add(name("good-6"), "receiver 6, subgroup 1", s, 6, second)
        add(name("my-tag"), "one bit of the own tag", s, 2, flip(first, 56 + 2 * tag), "tag")
        add(name("my-tag-end"), "the last bit of the own tag", s, 2, flip(first, 56 + 3 * tag - 1, 7), "tag")
        add(name("wrong-key"), "the tag of receiver 1 at the place of receiver 0", s, 0, first[:56] + first[56 + tag :][:tag] + first[56 + tag :], "tag")
        add(name("seq"), "another sequence number under the tag", s, 0, flip(first, 23), "tag")
        add(name("digest"), "the payload does not have the digest", s, 0, flip(first, 160), "digest")
        add(name("digest-short"), "one byte of the payload is missing", s, 0, first[:-1], "digest")
        add(name("kind-0"), "a request", s, 0, request(7, noise(64)), "kind")
        add(name("kind-pk"), "a PK packet in an HM group", s, 0, flip(flip(first, 3, 0), 3, 1), "kind")
        add(name("group"), "another group", s, 0, flip(first, 7), "group")
        add(name("epoch"), "another epoch", s, 0, flip(first, 11), "epoch")
        add(name("suite"), "another suite than the group has", s, 0, first[:14] + b"\0" + first[15:], "suite")
        add(name("subgroup"), "the packet of another subgroup: well formed, but without a tag for this receiver", s, 0, second, "subgroup")
        add(name("short"), "159 bytes", s, 0, first[:159], "short")
        add(name("magic"), "another magic", s, 0, flip(first, 0), "magic")
        add(name("version"), "version 0", s, 0, flip(first, 2), "version")
        add(name("reserved"), "the reserved byte is not zero", s, 0, flip(first, 15), "reserved")
    for suite in (4, 5):
        s = Sequencer(CHAIN, 7, 3, suite, sign_every=2)
        first, second, third = (s.stamp(request(7, noise(64 + i)))[0][0] for i in range(3))
        name = lambda case: f"receive-s{suite}-{case}"
        add(name("first"), "the first packet of the epoch", s, None, first)
        add(name("third"), "a later signed packet", s, None, third)
        add(name("epoch"), "another epoch", s, None, flip(third, 11), "epoch")
        add(name("kind-hm"), "an HM packet in a PK group", s, None, third[:3] + b"\1" + third[4:], "kind")
        add(name("signature"), "one bit of the signature", s, None, flip(third, 56 + 40), "signature")
        add(name("seq"), "another sequence number under the signature", s, None, flip(third, 23), "signature")
        add(name("prev-seq"), "another predecessor under the signature", s, None, flip(third, 127), "signature")
        add(name("prev-hash"), "another chain under the signature", s, None, flip(third, 128), "signature")
        add(name("digest"), "the payload does not have the digest", s, None, flip(third, 160), "digest")
        if suite == 4:
            high = N256K1 - int.from_bytes(third[88:120], "big")
            add(name("high-s"), "the same signature with high s", s, None, third[:88] + u(high, 32) + third[120:], "signature")
    return out


PORT = 0xA04D


def frames():
    """Whole Ethernet frames, for producers that read below UDP."""

    def frame(datagram, options=b"", protocol=17, ethertype=0x0800, port=PORT, fragment=0, udp_length=None, ip_length=None, version=4, pad=0):
        udp = u(50000, 2) + u(port, 2) + u(udp_length if udp_length is not None else 8 + len(datagram), 2) + b"\x12\x34"
        length = 20 + len(options) + len(udp) + len(datagram)
        ip = u((version << 4) | (5 + len(options) // 4), 1) + b"\0" + u(ip_length if ip_length is not None else length, 2)
        ip += b"\0\1" + u(fragment, 2) + b"\x40" + u(protocol, 1) + b"\0\0" + bytes([10, 0, 0, 2]) + bytes([239, 1, 0, 7]) + options
        checksum = sum(int.from_bytes(ip[i : i + 2], "big") for i in range(0, len(ip), 2))
        while checksum >> 16:
            checksum = (checksum & 0xFFFF) + (checksum >> 16)
        ip = ip[:10] + u(~checksum & 0xFFFF, 2) + ip[12:]
        return bytes.fromhex("01005e010007" "020000000002") + u(ethertype, 2) + ip + udp + datagram + bytes(pad)

    def stamped(sent, datagram):
        # A frame keeps its addresses. The UDP checksum becomes 0, "none", as RFC 768 allows for IPv4.
        return sent[:40] + b"\0\0" + datagram + sent[42 + len(datagram) :]

    good = request(7, noise(64))
    cases = [
        ("good", "IPv4 without options", frame(good), "stamp"),
        ("padded", "bytes after the IP packet are kept", frame(good, pad=6), "stamp"),
        ("empty", "an empty payload", frame(request(7, b"")), "stamp"),
        ("options", "IP options to the port of aom", frame(good, options=b"\x01\x01\x01\x00"), "drop"),
        ("options-longest", "40 bytes of IP options", frame(good, options=b"\x01" * 39 + b"\0"), "drop"),
        ("first-fragment", "the first fragment of a datagram", frame(good, fragment=0x2000), "drop"),
        ("udp-short", "the UDP length ends inside the header", frame(good, udp_length=8 + 159), "drop"),
        ("udp-long", "the UDP length is longer than the frame", frame(good, udp_length=8 + len(good) + 1), "drop"),
        ("ip-long", "the IP length is longer than the frame", frame(good, ip_length=28 + len(good) + 1), "drop"),
        ("cut", "the frame ends inside the aom header", frame(good)[: 42 + 159], "drop"),
        ("magic", "another magic", frame(flip(good, 0)), "drop"),
        ("later-fragment", "not the first fragment: no ports to read", frame(good, fragment=0x0001), "pass"),
        ("other-port", "another UDP port", frame(good, port=53), "pass"),
        ("tcp", "TCP", frame(good, protocol=6), "pass"),
        ("arp", "not IPv4", frame(good, ethertype=0x0806), "pass"),
        ("ipv6", "IPv6", frame(good, ethertype=0x86DD, version=6), "pass"),
        ("short-ihl", "an IP header shorter than 20 bytes", frame(good)[:14] + b"\x44" + frame(good)[15:], "pass"),
        ("ethernet-only", "an Ethernet header and nothing else", frame(good)[:14], "pass"),
    ]
    out = []
    for name, about, sent, verdict in cases:
        s = Sequencer(CHAIN, 7, 3, 1, 4)
        groups = [s.config()]
        datagram = sent[42:] if name != "padded" else sent[42:-6]
        vector = {"id": f"frame-{name}", "about": about, "producers": ["xdp"], "chain_id": CHAIN, "udp_port": PORT, "groups": groups}
        vector |= {"frame": sent.hex(), "verdict": verdict}
        if verdict == "stamp":
            vector["out"] = stamped(sent, s.stamp(datagram)[0][0]).hex()
        out.append(vector)
    return out


def generate():
    check_primitives()
    content = {
        "format": "corniche/aom/1 test vectors, made by generate.py",
        "stamp": stamping(),
        "derive": derivation(),
        "receive": receiving(),
        "frames": frames(),
    }
    ids = [v["id"] for section in ("stamp", "derive", "receive", "frames") for v in content[section]]
    assert len(ids) == len(set(ids)), "an id is used twice"
    # One vector a line keeps changes readable in a diff.
    lines = ['{', f' "format": {json.dumps(content.pop("format"))}']
    for section, vectors in content.items():
        lines[-1] += ","
        lines.append(f' "{section}": [')
        lines += [f"  {json.dumps(v)}{',' if v is not vectors[-1] else ''}" for v in vectors]
        lines.append(" ]")
    return "\n".join(lines + ["}"]) + "\n"


def main():
    text = generate()
    json.loads(text)
    if sys.argv[1:] == ["--check"]:
        if not FILE.exists() or FILE.read_text() != text:
            sys.exit(f"check of vectors: expected {FILE.name} as generate.py makes it, got another; run generate.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        FILE.write_text(text)


if __name__ == "__main__":
    main()
