/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs nvme: drives that the engine drives itself. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock_host.h"
#include "base/memory_host.h"
#include "cli/cli.h"
#include "cli/nvme_show.h"
#include "client/explain.h"
#include "dev/before_host.h"
#include "dev/nvme/emu_host.h"
#include "dev/nvme/lanes_host.h"
#include "dev/nvme/pci_host.h"
#include "dev/nvme/place_host.h"
#include "dev/nvme/vfio_host.h"
#include "fs/mkfs_host.h"
#include "fs/probe_host.h"
#include "fs/take_host.h"
#include "print/report.h"
#include "simt/simt_host.h"

const char g4_help_nvme[] =
	"list [-j]\n"
	"       gpu4fs nvme bind [-f] ADDRESS\n"
	"       gpu4fs nvme unbind ADDRESS\n"
	"       gpu4fs nvme id|log [-j] ADDRESS\n"
	"       gpu4fs nvme test --destructive [-f] ADDRESS[/NAMESPACE[/PARTITION]]\n\n"
	"For NVMe drives that gpu4fs drives itself, as the device nvme:ADDRESS or, where it is not\n"
	"the first namespace, nvme:ADDRESS/NAMESPACE, with /PARTITION behind it for one of a GUID\n"
	"partition table; an address is one of PCI, 0000:03:00.0. The kernel needs an IOMMU that is\n"
	"on, and vfio-pci.\n\n"
	"'list' shows all drives, how far NVIDIA's GPUs are from them, and what could be done about what\n"
	"stands in the way (IOMMU, limits, pinning, BARs, slots, ACS); 'id' and 'test' show that of one.\n"
	"'bind' takes one from the kernel's driver and gives it to VFIO, 'unbind' gives it back, also when\n"
	"the program that used it has crashed. A drive that is in use is neither taken nor given back.\n"
	"'gpu4fs mount' and the end of that mount do both by themselves.\n"
	"'id' shows what a drive that was bound says about itself, or an emulated one (emu:DEVICE),\n"
	"'log' its health, its firmware and its last errors. Formats are changed by nvme-cli's 'nvme format'.\n"
	"'test' writes to it and compares, also by queues such as a GPU gets; what it holds is gone.\n\n"
	"  -f, --force        although there are partitions or a file system on it\n"
	"      --destructive  what 'test' needs to begin\n"
	"  -j, --json         as JSON\n"
	"      --help         show this\n";

#define DRIVES 256u
#define EMULATED "emu:" /* and what is a medium: its controller is asked, which shows what the answers of one are */
#define TEST_BYTES (8 * G4_MIB)
#define LANE_QUEUES 8u
#define NODE_BYTES 300u

struct request {
	bool force, destructive, json;
};

static int failed(const char *message)
{
	g4_cli_error("nvme", "%s", message);
	return G4_EXIT_FAILURE;
}

static struct g4_dev_message sentence_in(char *text, size_t bytes)
{
	text[0] = '\0';
	return (struct g4_dev_message){.text = text, .bytes = bytes};
}

/* ---- list ---- */

static uint64_t blocks_of(const char *disk)
{
	char path[NODE_BYTES + 32];
	unsigned long long blocks = 0;

	snprintf(path, sizeof(path), "/sys/block/%s/size", disk);
	FILE *file = fopen(path, "re");
	if (file) {
		if (fscanf(file, "%llu", &blocks) != 1)
			blocks = 0;
		fclose(file);
	}
	return blocks;
}

/* What a list without drives may be for; looking needs no rights, taking one does. */
static const char *why_none(void)
{
	static char text[128];

	if (access("/sys/bus/pci/devices", R_OK | X_OK) == 0)
		return "no PCI device that this machine shows is an NVMe controller";
	snprintf(text, sizeof(text), "/sys/bus/pci/devices can not be read: %s", strerror(errno));
	return text;
}

static int list(const struct request *request)
{
	static struct g4_pci drives[DRIVES];
	const uint32_t count = (uint32_t)g4_min64(g4_pci_list(drives, DRIVES), DRIVES);
	struct g4_report report;
	char disk[256], use[512], node[NODE_BYTES];
	const uint64_t locked_bytes = g4_place_locked_bytes();
	struct g4_place place;

	g4_report_start(&report, stdout, request->json);
	g4_report_list(&report, "drives");
	for (uint32_t i = 0; i < count; i++) {
		const struct g4_pci *pci = &drives[i];
		g4_report_object(&report, NULL);
		g4_report_text(&report, "address", pci->name);
		g4_report_format(&report, "id", "%04x:%04x", pci->vendor, pci->device);
		g4_report_text(&report, "driver", pci->driver[0] ? pci->driver : "none");
		if (pci->group == G4_PCI_NO_GROUP)
			g4_report_text(&report, "iommu_group", "none");
		else if (pci->unsafe)
			g4_report_text(&report, "iommu_group", "none (unsafe)");
		else
			g4_report_format(&report, "iommu_group", "%" PRIu32, pci->group);
		g4_report_list(&report, "namespaces");
		for (uint32_t n = 0; g4_pci_block(pci, n, disk, sizeof(disk)); n++) {
			snprintf(node, sizeof(node), "/dev/%s", disk);
			const bool used = g4_probe_in_use(node, use, sizeof(use));
			g4_report_format(&report, NULL, "%s (%" PRIu64 " MiB%s%s)", node, blocks_of(disk) / 2048,
					 used ? ", " : "", used ? use : "");
		}
		g4_report_end(&report);
		if (g4_place_look("", pci->name, locked_bytes, &place))
			g4_nvme_show_place(&place, &report);
		g4_report_end(&report);
	}
	g4_report_end(&report);
	if (count == 0)
		g4_report_text(&report, "reason", why_none());
	g4_report_list(&report, "remedies");
	for (uint32_t i = 0; i < count; i++)
		if (g4_place_look("", drives[i].name, locked_bytes, &place))
			g4_nvme_show_remedies(&place, &report);
	g4_report_end(&report);
	g4_report_finish(&report);
	return G4_EXIT_OK;
}

/* ---- bind and unbind ---- */

static int bind_to(const char *address, bool take, const struct request *request)
{
	char name[G4_PCI_NAME_BYTES], message[1024];
	const struct g4_dev_message sentence = sentence_in(message, sizeof(message));
	struct g4_pci pci;

	if (!g4_pci_parse(address, name, NULL, NULL))
		return g4_cli_usage("nvme", "'%s' is no PCI address, such as 0000:03:00.0", address);
	if (g4_pci_find(name, name, &pci, sentence) < 0)
		return failed(message);
	if (!take && strcmp(pci.driver, "vfio-pci") != 0 && pci.driver[0] != '\0')
		return G4_EXIT_OK; /* another driver than VFIO's has it */
	if (take && pci.group == G4_PCI_NO_GROUP)
		g4_cli_error("nvme",
			     "%s: the kernel uses no IOMMU for it: vfio takes it only with enable_unsafe_noiommu_mode",
			     name);
	const int rc = take ? g4_take_drive(&pci, request->force ? G4_TAKE_ANY : G4_TAKE_EMPTY, sentence) :
			      g4_pci_give(&pci, NULL, sentence);
	return rc < 0 ? failed(message) : G4_EXIT_OK;
}

/* ---- id and log ---- */

static int open_emulated(const char *name, struct g4_nvme_provider *provider, struct g4_dev_message sentence)
{
	const struct g4_dev_open_options open = {.flags = G4_DEV_READ_ONLY, .queues = 1};
	struct g4_dev *medium;
	struct g4_emu *emu;

	if (strncmp(name, EMULATED, strlen(EMULATED)) == 0)
		return g4_dev_fail(sentence, -G4_E_DEV_NAME, EMULATED "%s: is no medium of an emulated controller",
				   name);
	int rc = g4_dev_open(name, &open, &medium, sentence.text, sentence.bytes);
	if (rc < 0)
		return rc;
	rc = g4_emu_open(medium, NULL, &emu, provider);
	if (rc < 0) {
		g4_dev_close(medium);
		return g4_dev_fail(sentence, rc, EMULATED "%s: out of memory", name);
	}
	return 0;
}

static int open_controller(const char *address, struct g4_nvme **nvme)
{
	char name[G4_PCI_NAME_BYTES], message[1024];
	const struct g4_dev_message sentence = sentence_in(message, sizeof(message));
	const struct g4_nvme_options options = {.queues = 1, .slots = 1, .read_only = true, .questions = true};
	const bool emulated = strncmp(address, EMULATED, strlen(EMULATED)) == 0;
	struct g4_nvme_provider provider;
	uint32_t nsid;

	if (!emulated && !g4_pci_parse(address, name, &nsid, NULL)) /* a namespace makes no difference */
		return g4_cli_usage("nvme", "'%s' is no PCI address, such as 0000:03:00.0", address);
	if ((emulated ? open_emulated(address + strlen(EMULATED), &provider, sentence) :
			g4_vfio_open(name, name, &provider, sentence)) < 0 ||
	    g4_nvme_open(emulated ? address : name, &provider, &options, nvme, sentence) < 0)
		return failed(message);
	return 0;
}

static int show(const char *address, bool id, const struct request *request)
{
	char message[1024], name[G4_PCI_NAME_BYTES];
	const struct g4_dev_message sentence = sentence_in(message, sizeof(message));
	struct g4_report report;
	struct g4_place place;
	struct g4_nvme *nvme;
	uint32_t nsid;
	int status = open_controller(address, &nvme);

	if (status != 0)
		return status;
	g4_report_start(&report, stdout, request->json);
	if ((id ? g4_nvme_show_id : g4_nvme_show_log)(nvme, &report, sentence) < 0)
		status = failed(message);
	if (id && g4_pci_parse(address, name, &nsid, NULL) &&
	    g4_place_look("", name, g4_place_locked_bytes(), &place)) {
		g4_nvme_show_place(&place, &report);
		g4_report_list(&report, "remedies");
		g4_nvme_show_remedies(&place, &report);
		g4_report_end(&report);
	}
	g4_report_finish(&report);
	g4_nvme_close(nvme);
	return status;
}

/* ---- test ---- */

static uint64_t word_at(uint64_t offset, uint64_t seed)
{
	uint64_t x = (offset + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ seed;

	return (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

/* Writes and compares a range, which lies `within` the buffer's first page. 0 or a code. */
static int write_and_compare(struct g4_wg *wg, struct g4_dev *dev, uint8_t *buffer, uint64_t within, uint64_t offset,
			     uint64_t bytes, uint32_t flags)
{
	uint64_t *words = (uint64_t *)(void *)(buffer + within);
	const uint64_t count = bytes / sizeof(*words);

	for (uint64_t i = 0; i < count; i++)
		words[i] = word_at(offset + i, bytes);
	int rc = g4_dev_write(wg, dev, offset, words, bytes, flags);
	memset(words, 0, bytes);
	if (rc == 0)
		rc = g4_dev_read(wg, dev, offset, words, bytes);
	for (uint64_t i = 0; rc == 0 && i < count; i++)
		if (words[i] != word_at(offset + i, bytes))
			return -G4_E_DATA;
	return rc;
}

static int complain(uint64_t offset, uint64_t bytes, int rc)
{
	if (rc == -G4_E_DATA)
		g4_cli_error("nvme", "%" PRIu64 " bytes at %" PRIu64 " came back with other contents", bytes, offset);
	else
		g4_cli_error("nvme", "%" PRIu64 " bytes at %" PRIu64 ": %s", bytes, offset, g4_strerror(rc));
	return G4_EXIT_FAILURE;
}

/* Every size that a command treats in its own way, at both ends and in the middle, in memory of both kinds (vfio_host.h). */
static int exercise(struct g4_wg *wg, struct g4_dev *dev, uint8_t *buffer, const char *how)
{
	const struct g4_dev_props *props = g4_dev_props(dev);
	const uint64_t sector = props->sector_bytes;
	const uint64_t sizes[] = {sector, 4096, 4096 + sector, 3 * 4096, 65536, G4_MIB, TEST_BYTES - 4096};
	const uint64_t middle = g4_align_down(props->size_bytes / 2, sector);
	struct g4_io discard = {.op = G4_IO_DISCARD, .offset_bytes = 0, .discard_bytes = g4_align_down(middle, sector)};
	const uint64_t begin = g4_monotonic_ns();
	uint64_t moved = 0;

	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const uint64_t places[] = {0, middle, props->size_bytes - sizes[i]};
		for (uint32_t k = 0; k < 3 && sizes[i] < props->size_bytes / 4; k++) {
			const int rc = write_and_compare(wg, dev, buffer, k == 1 ? sector % G4_PAGE_BYTES : 0,
							 places[k], sizes[i], k == 2 ? G4_IO_FUA : 0);
			if (rc < 0)
				return complain(places[k], sizes[i], rc);
			moved += 2 * sizes[i];
		}
	}
	int rc = g4_dev_flush(wg, dev);
	if (rc == 0 && props->discard) {
		g4_dev_submit(wg, dev, &discard);
		rc = g4_dev_wait(wg, dev, &discard);
	}
	if (rc < 0)
		return complain(0, 0, rc);
	printf("%" PRIu64 " MiB written and read%s: all as it was written (%.1f s)\n", moved >> 20, how,
	       (double)(g4_monotonic_ns() - begin) / 1e9);
	return G4_EXIT_OK;
}

/* How long what follows takes depends on it. */
static int say_before(const char *name, struct g4_dev *dev)
{
	char text[G4_BEFORE_TEXT_BYTES];
	uint32_t zeros;
	const int rc = g4_dev_look_before(NULL, dev, G4_BEFORE_PLACES, &zeros);

	if (rc < 0)
		return complain(0, G4_PAGE_BYTES, rc);
	printf("%s held %s\n", name, g4_dev_say_before(zeros, G4_BEFORE_PLACES, text));
	return G4_EXIT_OK;
}

/* Those that `mount -o gpu_queues=` gives to a GPU, here in the hands of the processor, by the GPU's code. A drive without any has failed nothing. */
static int test_lanes(const char *name, uint8_t *buffer)
{
	const struct g4_dev_open_options open = {.flags = G4_DEV_EXCLUSIVE, .queues = 1, .lane_queues = LANE_QUEUES};
	struct g4_dev *dev = NULL, *lanes = NULL;
	char why[1024];
	struct g4_wg *wg = g4_wg_create(1);
	int rc = wg ? g4_dev_open(name, &open, &dev, why, sizeof(why)) : -G4_E_NOMEM;
	int status = G4_EXIT_OK;

	if (rc == 0)
		rc = g4_dev_lanes_open(dev, NULL, &lanes, sentence_in(why, sizeof(why)));
	if (rc == 0)
		status = exercise(wg, lanes, buffer, ", by queues for a GPU");
	else
		printf("no queues for a GPU: %s\n", wg && why[0] ? why : g4_strerror(rc));
	g4_dev_close(lanes ? lanes : dev);
	g4_wg_destroy(wg);
	return status;
}

/* What stands in the way of a drive, whatever the test says. */
static void say_remedies(const char *address)
{
	char name[G4_PCI_NAME_BYTES], text[G4_PLACE_REMEDY_BYTES];
	struct g4_place place;
	uint32_t nsid, partition;

	if (!g4_pci_parse(address, name, &nsid, &partition) ||
	    !g4_place_look("", name, g4_place_locked_bytes(), &place))
		return;
	for (uint32_t i = 0; g4_place_remedy(&place, i, text); i++)
		printf("remedy: %s\n", text);
}

static int test(const char *address, const struct request *request)
{
	const struct g4_dev_open_options open = {.flags = G4_DEV_EXCLUSIVE, .queues = 1};
	char name[128], message[1024];
	struct g4_dev *dev;

	if (!request->destructive)
		return g4_cli_usage("nvme", "a test overwrites what %s holds: it needs --destructive", address);
	snprintf(name, sizeof(name), "%s%s", strncmp(address, EMULATED, strlen(EMULATED)) == 0 ? "" : "nvme:", address);
	say_remedies(address);
	const int rc = g4_dev_open(name, &open, &dev, message, sizeof(message));
	if (rc < 0) {
		g4c_explain(rc, name, message, sizeof(message));
		return failed(message);
	}
	const char *what = request->force ? NULL : g4_probe_foreign(dev);
	uint8_t *buffers[2] = {g4_memory_map(TEST_BYTES), aligned_alloc(G4_PAGE_BYTES, TEST_BYTES)};
	int status = G4_EXIT_OK;
	if (what) {
		g4_cli_error("nvme", "%s holds %s; --force overwrites it", name, what);
		status = G4_EXIT_FAILURE;
	} else if (!buffers[0] || !buffers[1]) {
		status = failed("out of memory");
	}
	if (status == G4_EXIT_OK)
		status = say_before(name, dev);
	for (uint32_t i = 0; i < 2 && status == G4_EXIT_OK; i++)
		status = exercise(NULL, dev, buffers[i], "");
	g4_dev_close(dev);
	if (status == G4_EXIT_OK)
		status = test_lanes(name, buffers[0]);
	g4_memory_unmap(buffers[0], TEST_BYTES);
	free(buffers[1]);
	return status;
}

/* All that is on a drive is at stake, and the kernel's driver does not see a format that another one changes. */
static int refuse_format(const char *address)
{
	g4_cli_error(
		"nvme",
		"format: gpu4fs changes no formats: 'gpu4fs nvme unbind %s', then 'nvme format' of nvme-cli, with one of the "
		"formats that 'gpu4fs nvme id' lists",
		address);
	return G4_EXIT_FAILURE;
}

int g4_cli_nvme(int argc, char **argv)
{
	static const struct option long_options[] = {{"force", no_argument, NULL, 'f'},
						     {"destructive", no_argument, NULL, 'd'},
						     {"json", no_argument, NULL, 'j'},
						     {NULL, 0, NULL, 0}};
	struct request request = {false, false, false};

	for (int answer; (answer = getopt_long(argc, argv, ":fj", long_options, NULL)) != -1;) {
		if (answer == 'f')
			request.force = true;
		else if (answer == 'd')
			request.destructive = true;
		else if (answer == 'j')
			request.json = true;
		else
			return g4_cli_bad_option("nvme", answer, argv);
	}
	const char *word = optind < argc ? argv[optind++] : "";
	if (strcmp(word, "list") == 0)
		return optind < argc ? g4_cli_usage("nvme", "list takes no address") : list(&request);
	if (strcmp(word, "format") == 0)
		return refuse_format(optind < argc ? argv[optind] : "ADDRESS");
	if (word[0] == 0)
		return g4_cli_usage("nvme", "say what to do: list, or bind, unbind, id, log or test and an address");
	const bool known = strcmp(word, "bind") == 0 || strcmp(word, "unbind") == 0 || strcmp(word, "id") == 0 ||
			   strcmp(word, "log") == 0 || strcmp(word, "test") == 0;
	if (!known)
		return g4_cli_usage("nvme", "'%s' is no order: list, bind, unbind, id, log and test are", word);
	if (optind + 1 != argc)
		return g4_cli_usage("nvme", "%s takes one address", word);
	if (strcmp(word, "id") == 0 || strcmp(word, "log") == 0)
		return show(argv[optind], strcmp(word, "id") == 0, &request);
	if (strcmp(word, "test") == 0)
		return test(argv[optind], &request);
	return bind_to(argv[optind], strcmp(word, "bind") == 0, &request);
}
