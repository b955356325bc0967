package main

// Hashes, trees and signatures.

import (
	"crypto/ed25519"
	"crypto/sha256"
	"math/big"
)

type hash [32]byte

var emptyRoot = hash(sha256.Sum256(nil))

func hashLeaf(data []byte) hash { return sha256.Sum256(append([]byte{0}, data...)) }

func hashNode(left, right hash) hash {
	return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
}

// checkpoint is the tree that a log commits to.
type checkpoint struct {
	origin string
	size   int64
	root   hash
}

// climb returns the roots of the old and the new tree that a proof leads to: RFC 9162, 2.1.
func climb(nodes []hash, old, grown hash, fn, sn int64) (hash, hash) {
	for _, node := range nodes {
		require(sn != 0, "the proof is too long")
		if fn&1 == 1 || fn == sn {
			old, grown = hashNode(node, old), hashNode(node, grown)
			for fn != 0 && fn&1 == 0 {
				fn, sn = fn>>1, sn>>1
			}
		} else {
			grown = hashNode(grown, node)
		}
		fn, sn = fn>>1, sn>>1
	}
	require(sn == 0, "the proof is too short")
	return old, grown
}

func checkInclusion(nodes []hash, leaf hash, index int64, tree checkpoint) {
	require(index < tree.size, "entry %d is beyond the tree of size %d", index, tree.size)
	_, root := climb(nodes, leaf, leaf, index, tree.size-1)
	require(root == tree.root, "entry %d is not in the tree of size %d", index, tree.size)
}

func checkConsistency(nodes []hash, old, grown checkpoint) {
	const why = "the tree of size %d does not begin with that of %d"
	require(old.size <= grown.size, why, grown.size, old.size)
	if old.size == 0 || old.size == grown.size {
		expected := grown.root
		if old.size != grown.size {
			expected = emptyRoot
		}
		require(len(nodes) == 0 && old.root == expected, why, grown.size, old.size)
		return
	}
	fn, sn := old.size-1, grown.size-1
	for fn&1 == 1 {
		fn, sn = fn>>1, sn>>1
	}
	// A tree of 2^k entries is a node of every larger one, and the proof begins above it.
	path := nodes
	if fn == 0 {
		path = append([]hash{old.root}, nodes...)
	}
	require(len(path) > 0, why, grown.size, old.size)
	before, after := climb(path[1:], path[0], path[0], fn, sn)
	require(before == old.root && after == grown.root, why, grown.size, old.size)
}

// ---- Ed25519 of the standard library, which accepts some public keys that the specification refuses.

var (
	fieldPrime = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	curveD     = func() *big.Int {
		d := new(big.Int).ModInverse(big.NewInt(121666), fieldPrime)
		return d.Mod(d.Mul(d, big.NewInt(-121665)), fieldPrime)
	}()
)

// checkPublicKey refuses bytes that are not the canonical form of a point, and points of small order.
func checkPublicKey(public []byte) {
	require(len(public) == 32, "a public key has %d bytes, not 32", len(public))
	reversed := make([]byte, 32)
	for i, b := range public {
		reversed[31-i] = b
	}
	reversed[0] &= 0x7f
	y := new(big.Int).SetBytes(reversed)
	square := new(big.Int).Mod(new(big.Int).Mul(y, y), fieldPrime)
	above := new(big.Int).Sub(square, big.NewInt(1))
	below := new(big.Int).Add(new(big.Int).Mul(curveD, square), big.NewInt(1))
	below.ModInverse(below.Mod(below, fieldPrime), fieldPrime)
	x2 := above.Mod(above.Mul(above, below), fieldPrime)
	onCurve := y.Cmp(fieldPrime) < 0 && big.Jacobi(x2, fieldPrime) >= 0
	require(onCurve && (x2.Sign() != 0 || public[31]>>7 == 0), "not a point on the curve")
	// The points of small order have y = 0, 1, -1 or one of two roots of this equation: 8 P = 0 for
	// x = 0 or y = 0, or if doubling leads to y = 0, which is x^2 = -y^2 (on this curve, y^2 + x^2 = 0).
	sum := new(big.Int).Add(square, x2)
	small := x2.Sign() == 0 || y.Sign() == 0 || sum.Mod(sum, fieldPrime).Sign() == 0
	require(!small, "a public key of small order")
}

type signatureQuestion struct{ public, message, signature string }

var signatureAnswers = map[signatureQuestion]bool{}

// signatureHolds verifies a signature, each once.
func signatureHolds(public, message, signature []byte) bool {
	if len(signature) != ed25519.SignatureSize {
		return false
	}
	question := signatureQuestion{string(public), string(message), string(signature)}
	answer, known := signatureAnswers[question]
	if !known {
		answer = ed25519.Verify(public, message, signature)
		signatureAnswers[question] = answer
	}
	return answer
}
