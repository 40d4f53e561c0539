// SPDX-License-Identifier: Apache-2.0
// Files as a Java program uses them, in a new directory: Files.java DIRECTORY. Ends with an exception where something is not as it should be.
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.stream.IntStream;
import java.util.stream.Stream;

class Main {
	static final int COUNT = 200;

	static void check(boolean holds, String what) {
		if (!holds)
			throw new AssertionError(what);
	}

	static String text(int i) {
		return (i + "\n").repeat(i * 50);
	}

	static void write(Path name, int i) {
		try {
			Files.writeString(name, text(i));
			check(Files.readString(name).equals(text(i)), "read what was written");
		} catch (IOException error) {
			throw new AssertionError(error);
		}
	}

	static void channels(Path name) throws IOException {
		try (FileChannel channel = FileChannel.open(name, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
			for (int i = 0; i < 256; i++)
				channel.write(ByteBuffer.wrap(new byte[] {(byte) i, 0, 0, 0}), 4L * i);
			channel.force(true);
			MappedByteBuffer map = channel.map(FileChannel.MapMode.READ_WRITE, 0, 1024);
			for (int i = 0; i < 256; i++)
				check(map.get(4 * i) == (byte) i, "mapped");
			map.put(1, (byte) 77);
			map.force();
			ByteBuffer one = ByteBuffer.allocate(1);
			check(channel.read(one, 1) == 1 && one.get(0) == 77, "what was mapped is read");
			try (FileLock lock = channel.lock(0, 10, false)) {
				check(lock.isValid(), "locked");
			}
			channel.truncate(100);
			check(channel.size() == 100, "cut");
		}
		try (RandomAccessFile file = new RandomAccessFile(name.toFile(), "rw")) {
			file.seek(50);
			file.writeInt(0x12345678);
			file.seek(50);
			check(file.readInt() == 0x12345678 && file.length() == 100, "anywhere");
		}
	}

	static void names(Path a) throws IOException {
		Path b = Files.createDirectory(a.resolve("b"));
		Path seven = a.resolve("f7"), copy = b.resolve("copy"), moved = b.resolve("moved");

		Files.copy(seven, copy, StandardCopyOption.COPY_ATTRIBUTES);
		Files.createLink(b.resolve("link"), seven);
		Files.createSymbolicLink(b.resolve("symlink"), Path.of("../f7"));
		check((int) Files.getAttribute(seven, "unix:nlink") == 2, "links");
		check(Files.isSameFile(b.resolve("symlink"), seven), "the same file");
		Files.move(copy, moved, StandardCopyOption.ATOMIC_MOVE);
		check(Files.mismatch(moved, seven) == -1, "equal");
		Files.setLastModifiedTime(moved, FileTime.fromMillis(1000000000000L));
		check(Files.getLastModifiedTime(moved).toMillis() == 1000000000000L, "time");
		Files.setPosixFilePermissions(moved, PosixFilePermissions.fromString("rw-------"));
		check(PosixFilePermissions.toString(Files.getPosixFilePermissions(moved)).equals("rw-------"), "permissions");
		try {
			Files.createDirectory(b);
			check(false, "made twice");
		} catch (FileAlreadyExistsException expected) {
		}
		try {
			Files.newInputStream(a.resolve("none")).close();
			check(false, "opened what is not there");
		} catch (NoSuchFileException expected) {
		}
		try (Stream<Path> walk = Files.walk(b)) {
			for (Path path : walk.sorted((x, y) -> y.compareTo(x)).toList())
				Files.delete(path);
		}
	}

	public static void main(String[] arguments) throws IOException {
		Path top = Path.of(arguments[0]), a = top.resolve("a");

		Files.createDirectories(a);
		IntStream.range(0, COUNT).parallel().forEach(i -> write(a.resolve("f" + i), i));
		names(a);
		channels(top.resolve("channel"));
		Files.delete(top.resolve("channel"));
		try (Stream<Path> list = Files.list(a)) {
			check(list.count() == COUNT, "listed");
		}
		check(Files.readString(a.resolve("f3"), StandardCharsets.UTF_8).equals(text(3)), "still there");
	}
}
