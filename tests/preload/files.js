// SPDX-License-Identifier: Apache-2.0
// Files as a Node program uses them, in a new directory: files.js DIRECTORY. Ends with an exception where something is not as it should be.
'use strict';
const assert = require('assert');
const fs = require('fs');
const path = require('path');

const top = process.argv[2];
const count = 200;

async function work() {
	fs.mkdirSync(path.join(top, 'a', 'b'), { recursive: true });
	const names = Array.from({ length: count }, (_, i) => path.join(top, 'a', `f${i}`));
	// libuv's threads, all at once
	await Promise.all(names.map((name, i) => fs.promises.writeFile(name, `${i}\n`.repeat(i * 50))));
	const read = await Promise.all(names.map((name) => fs.promises.readFile(name, 'utf8')));
	read.forEach((text, i) => assert.strictEqual(text, `${i}\n`.repeat(i * 50)));
	assert.deepStrictEqual(fs.readdirSync(path.join(top, 'a')).length, count + 1);

	const file = await fs.promises.open(path.join(top, 'a', 'f1'), 'r+');
	await file.write(Buffer.from('X'), 0, 1, 5);
	await file.sync();
	assert.strictEqual((await file.stat()).size, 100);
	await file.truncate(6);
	await file.close();
	assert.strictEqual(fs.readFileSync(names[1], 'latin1'), '1\n1\n1X');

	fs.copyFileSync(names[7], path.join(top, 'a', 'b', 'copy'));
	fs.linkSync(names[7], path.join(top, 'a', 'b', 'link'));
	fs.symlinkSync('../f7', path.join(top, 'a', 'b', 'symlink'));
	assert.strictEqual(fs.statSync(names[7]).nlink, 2);
	assert.strictEqual(fs.realpathSync(path.join(top, 'a', 'b', 'symlink')), fs.realpathSync(names[7]));
	assert.deepStrictEqual(fs.readFileSync(path.join(top, 'a', 'b', 'copy')), fs.readFileSync(names[7]));
	fs.renameSync(path.join(top, 'a', 'b', 'copy'), path.join(top, 'a', 'b', 'moved'));
	fs.appendFileSync(path.join(top, 'a', 'b', 'moved'), 'more');
	fs.utimesSync(path.join(top, 'a', 'b', 'moved'), 1000000000, 1000000000);
	assert.strictEqual(fs.statSync(path.join(top, 'a', 'b', 'moved')).mtimeMs, 1e12);
	fs.chmodSync(path.join(top, 'a', 'b', 'moved'), 0o600);
	assert.strictEqual(fs.statSync(path.join(top, 'a', 'b', 'moved')).mode & 0o777, 0o600);

	// streams
	await new Promise((resolve, reject) => {
		const out = fs.createWriteStream(path.join(top, 'stream'));
		out.on('error', reject).on('finish', resolve);
		for (let i = 0; i < 1000; i++) out.write(Buffer.alloc(4096, i));
		out.end();
	});
	let bytes = 0;
	for await (const part of fs.createReadStream(path.join(top, 'stream')))
		for (const byte of part) assert.strictEqual(byte, Math.floor(bytes++ / 4096) & 255);
	assert.strictEqual(bytes, 4096000);

	assert.throws(() => fs.openSync(path.join(top, 'none')), { code: 'ENOENT' });
	assert.throws(() => fs.mkdirSync(path.join(top, 'a')), { code: 'EEXIST' });
	assert.throws(() => fs.rmdirSync(path.join(top, 'a')), { code: 'ENOTEMPTY' });
	fs.rmSync(path.join(top, 'a', 'b'), { recursive: true });
	fs.unlinkSync(path.join(top, 'stream'));
	assert.strictEqual(fs.readdirSync(top, { recursive: true }).length, count + 1);
}

work().catch((error) => {
	console.error(error);
	process.exit(1);
});
