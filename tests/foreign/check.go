// Check judges a log that Forum has written, with golang.org/x/mod/sumdb: the code with which the
// go command checks its own checksum database.  Hashing, signatures and proofs are left to its
// packages note and tlog; what is written here reads files and compares.
//
// The argument is a directory laid out as C2SP tlog-tiles says, with more files beside it:
//
//	checkpoint                the newest checkpoint
//	tile/<L>/<N>[.p/<W>]      the tree
//	tile/entries/<N>[.p/<W>]  the entries
//	vkey                      the key of the log
//	checkpoint.old            a checkpoint of the same log when it was smaller
//	checkpoint.fork           as large as checkpoint.old and well signed, but with another root
//	consistency               Forum's proof that checkpoint.old grew into checkpoint
//	proofs/<N>.tlog-proof     Forum's proof of entry N (C2SP tlog-proof)
//
// Every check prints one line, "ok" or "FAILED" and its name.  One failure fails the program.
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// A tile of C2SP tlog-tiles has this height, and this many hashes.
const (
	height = 8
	width  = 1 << height
)

func main() {
	if len(os.Args) != 2 {
		must(errors.New("usage: check <directory>"))
	}
	dir := directory(os.Args[1])
	key, err := note.NewVerifier(strings.TrimSpace(string(dir.read("vkey"))))
	must(err)

	newest := dir.checkSignature("checkpoint", key)
	old := dir.checkSignature("checkpoint.old", key)
	fork := dir.checkSignature("checkpoint.fork", key)
	checkAlteredCheckpoint(dir.read("checkpoint"), key)

	entries := dir.entries(newest.N)
	checkTree(dir, entries, old, newest)
	for _, proof := range dir.proofs() {
		checkEntry(dir, newest, proof, entries[proof.index], key)
	}
	for level := 0; newest.N>>(height*level) > 0; level++ {
		checkAlteredTile(dir, newest, level, entries)
	}
	checkConsistency(dir, old, fork, newest)

	if failed {
		os.Exit(1)
	}
}

// ---- The checks.

// checkSignature verifies the signature of a checkpoint, and returns what it commits to.
func (d directory) checkSignature(name string, key note.Verifier) tlog.Tree {
	tree, err := openCheckpoint(d.read(name), key)
	accept("signature of "+name, err)
	must(err) // without a checkpoint there is nothing to compare with
	return tree
}

// checkAlteredCheckpoint flips a bit in each byte of a signed note, one after the other.
func checkAlteredCheckpoint(data []byte, key note.Verifier) {
	var accepted []int
	for i := range data {
		// The last digit of the signature has bits that no byte takes up.  Go's base64 decoder
		// passes over them, so a flip there need not be an alteration.
		if i == len(data)-len("x=\n") {
			continue
		}
		forged := append([]byte{}, data...)
		forged[i] ^= 1
		if _, err := openCheckpoint(forged, key); err == nil {
			accepted = append(accepted, i)
		}
	}
	var err error
	if accepted != nil {
		err = fmt.Errorf("accepted with altered bytes at %v", accepted)
	}
	accept("altered checkpoint is rejected", err)
}

// checkTree builds the whole tree anew from the entries: both roots and all tiles come out.
func checkTree(dir directory, entries [][]byte, old, newest tlog.Tree) {
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		var found []tlog.Hash
		for _, i := range indexes {
			found = append(found, stored[i])
		}
		return found, nil
	})
	for n, entry := range entries {
		more, err := tlog.StoredHashes(int64(n), entry, reader)
		must(err)
		stored = append(stored, more...)
	}
	accept("entries hash to the root of checkpoint", checkRoot(newest, reader))
	accept("entries hash to the root of checkpoint.old", checkRoot(old, reader))

	for level := 0; newest.N>>(height*level) > 0; level++ {
		var differ error
		for _, tile := range tilesOf(newest.N, level) {
			want, err := tlog.ReadTileData(tile, reader)
			must(err)
			if !bytes.Equal(dir.read(path(tile)), want) {
				differ = fmt.Errorf("%s holds other hashes", path(tile))
			}
		}
		accept(fmt.Sprintf("entries hash to the tiles of level %d", level), differ)
	}
}

func checkRoot(tree tlog.Tree, reader tlog.HashReader) error {
	root, err := tlog.TreeHash(tree.N, reader)
	if err == nil && root != tree.Hash {
		err = fmt.Errorf("the root is %v, not %v", root, tree.Hash)
	}
	return err
}

// checkEntry proves one entry twice, from the tiles and by Forum's own proof file, and then
// tries to have something else accepted in its place.
func checkEntry(dir directory, tree tlog.Tree, given proofFile, entry []byte, key note.Verifier) {
	name := fmt.Sprintf("entry %d ", given.index)

	built, err := proveFromTiles(dir, tree, given.index, entry)
	if err == nil && !reflect.DeepEqual(built, given.hashes) {
		err = errors.New("Forum's proof is another one")
	}
	accept(name+"is proven from the tiles as Forum proves it", err)

	signed, err := openCheckpoint(given.checkpoint, key)
	check := func(index int64, entry []byte) error {
		return tlog.CheckRecord(given.hashes, signed.N, signed.Hash, index, tlog.RecordHash(entry))
	}
	if err == nil {
		err = check(given.index, entry)
	}
	accept(name+"is proven by its tlog-proof", err)

	forged := append([]byte{}, entry...)
	forged[len(forged)/2] ^= 1
	reject(name+"is rejected when forged", check(given.index, forged))
	reject(name+"is rejected at another index", check(given.index^1, entry))
}

// checkAlteredTile flips one bit in a tile of this level.  The entry right of the first full tile
// of level 1 and its ancestors have siblings in tiles of every level, which its proof depends on.
func checkAlteredTile(dir directory, tree tlog.Tree, level int, entries [][]byte) {
	const index = width * width
	_, err := proveFromTiles(dir, tree, index, entries[index])
	must(err)
	tiles := &altered{directory: dir, level: level, index: index>>(height*level) ^ 1}
	_, err = proveFromTiles(tiles, tree, index, entries[index])
	if !tiles.met {
		err = nil // if it was rejected, then not for the alteration
	}
	reject(fmt.Sprintf("altered tile of level %d is rejected", level), err)
}

// checkConsistency proves twice that the log only grew, from the tiles and by Forum's own proof;
// neither proof may hold for an old checkpoint with another root.
func checkConsistency(dir directory, old, fork, newest tlog.Tree) {
	given := tlog.TreeProof(parseHashes(strings.Fields(string(dir.read("consistency")))))
	check := func(proof tlog.TreeProof, from tlog.Tree) error {
		return tlog.CheckTree(proof, newest.N, newest.Hash, from.N, from.Hash)
	}

	built, err := tlog.ProveTree(newest.N, old.N, tlog.TileHashReader(newest, dir))
	must(err)
	accept("consistency is proven from the tiles", check(built, old))
	accept("consistency is proven by Forum", check(given, old))
	if !reflect.DeepEqual(built, given) {
		err = errors.New("they differ")
	}
	accept("consistency has one proof", err)

	if fork.N != old.N {
		must(errors.New("checkpoint.fork is not as large as checkpoint.old"))
	}
	reject("consistency with another old root is rejected", check(given, fork))
}

// proveFromTiles builds the inclusion proof of an entry out of tiles, and checks it against the
// root.  The check is needed: before v0.40.0 of golang.org/x/mod, a TileHashReader may hand out
// hashes from tiles that it has not compared with their parents (CVE-2026-56865).
func proveFromTiles(tiles tlog.TileReader, tree tlog.Tree, index int64, entry []byte) (tlog.RecordProof, error) {
	proof, err := tlog.ProveRecord(tree.N, index, tlog.TileHashReader(tree, tiles))
	if err != nil {
		return nil, err
	}
	return proof, tlog.CheckRecord(proof, tree.N, tree.Hash, index, tlog.RecordHash(entry))
}

// ---- The files.

// directory is where the log lies; it is a tlog.TileReader.
type directory string

func (d directory) read(name string) []byte {
	data, err := os.ReadFile(filepath.Join(string(d), name))
	must(err)
	return data
}

func (d directory) Height() int { return height }

func (d directory) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var all [][]byte
	for _, tile := range tiles {
		all = append(all, d.read(path(tile)))
	}
	return all, nil
}

func (d directory) SaveTiles([]tlog.Tile, [][]byte) {}

// altered is a directory in which one bit of one hash has been flipped.
type altered struct {
	directory
	level int
	index int64 // of the hash, within its level
	met   bool  // whether the hash has been read
}

func (a *altered) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	all, err := a.directory.ReadTiles(tiles)
	for i, tile := range tiles {
		if tile.L == a.level && tile.N == a.index/width {
			all[i][a.index%width*tlog.HashSize] ^= 1
			a.met = true
		}
	}
	return all, err
}

// path names the file of a tile as C2SP does: without the height that package tlog writes, and
// with "entries" for what it calls "data", the level -1.
func path(tile tlog.Tile) string {
	rest := strings.TrimPrefix(tile.Path(), fmt.Sprintf("tile/%d/", height))
	return "tile/" + strings.Replace(rest, "data/", "entries/", 1)
}

// tilesOf lists the tiles of one level of a tree; the entries, level -1, stand below level 0.
func tilesOf(size int64, level int) []tlog.Tile {
	if level > 0 {
		size >>= height * level
	}
	var tiles []tlog.Tile
	for n := int64(0); n*width < size; n++ {
		tile := tlog.Tile{H: height, L: level, N: n, W: width}
		if size < (n+1)*width {
			tile.W = int(size - n*width)
		}
		tiles = append(tiles, tile)
	}
	return tiles
}

// entries reads all entries of a tree.
func (d directory) entries(size int64) [][]byte {
	var all [][]byte
	for _, tile := range tilesOf(size, -1) {
		bundle, err := parseBundle(d.read(path(tile)))
		if err == nil && len(bundle) != tile.W {
			err = fmt.Errorf("%d entries", len(bundle))
		}
		if err != nil {
			must(fmt.Errorf("%s: %v", path(tile), err))
		}
		all = append(all, bundle...)
	}
	return all
}

// parseBundle reads entries that stand each behind its length, a big-endian uint16.
func parseBundle(data []byte) ([][]byte, error) {
	var entries [][]byte
	for len(data) > 0 {
		if len(data) < 2 || len(data) < 2+int(binary.BigEndian.Uint16(data)) {
			return nil, errors.New("the last entry is cut off")
		}
		end := 2 + int(binary.BigEndian.Uint16(data))
		entries, data = append(entries, data[2:end]), data[end:]
	}
	return entries, nil
}

// openCheckpoint reads a checkpoint: a note of three lines (C2SP tlog-checkpoint), signed by the
// log whose name it begins with.
func openCheckpoint(data []byte, key note.Verifier) (tlog.Tree, error) {
	opened, err := note.Open(data, note.VerifierList(key))
	if err != nil {
		return tlog.Tree{}, err
	}
	lines := strings.Split(opened.Text, "\n")
	if len(lines) != 4 || lines[0] != key.Name() {
		return tlog.Tree{}, fmt.Errorf("not a checkpoint of %s: %q", key.Name(), opened.Text)
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return tlog.Tree{}, err
	}
	root, err := tlog.ParseHash(lines[2])
	return tlog.Tree{N: size, Hash: root}, err
}

// proofFile is a C2SP tlog-proof.
type proofFile struct {
	index      int64
	hashes     tlog.RecordProof
	checkpoint []byte
}

// proofs reads the proof files that Forum has written.
func (d directory) proofs() []proofFile {
	names, err := filepath.Glob(filepath.Join(string(d), "proofs", "*.tlog-proof"))
	must(err)
	var all []proofFile
	for _, name := range names {
		data, err := os.ReadFile(name)
		must(err)
		proof, err := parseProof(data)
		must(err)
		all = append(all, proof)
	}
	return all
}

func parseProof(data []byte) (proofFile, error) {
	parts := bytes.SplitN(data, []byte("\n\n"), 2)
	lines := strings.Split(string(parts[0]), "\n")
	if len(parts) < 2 || len(lines) < 2 || lines[0] != "c2sp.org/tlog-proof@v1" {
		return proofFile{}, errors.New("not a tlog-proof")
	}
	index, err := strconv.ParseInt(strings.TrimPrefix(lines[1], "index "), 10, 64)
	return proofFile{index, parseHashes(lines[2:]), parts[1]}, err
}

func parseHashes(lines []string) []tlog.Hash {
	var all []tlog.Hash
	for _, line := range lines {
		hash, err := tlog.ParseHash(line)
		must(err)
		all = append(all, hash)
	}
	return all
}

// ---- The results.

var failed bool

// accept prints the result of a check that must succeed.
func accept(name string, err error) {
	if err != nil {
		failed = true
		fmt.Printf("FAILED %s: %v\n", name, err)
		return
	}
	fmt.Printf("ok %s\n", name)
}

// reject prints the result of a check that must fail.  Beside each stands the same check of what
// was not altered, which must succeed.
func reject(name string, err error) {
	if err == nil {
		accept(name, errors.New("nothing was found wrong"))
	} else {
		accept(name, nil)
	}
}

// must stops the program where files cannot be read or understood.
func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
