// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * A stand-in for the HiSilicon PMCU: a PMU named hisi_pmcu_sccl0 with the
 * sysfs files of the real one, whose AUX area is filled with numbers that
 * anybody can compute (see value_of, and tests/builders/pmcu.py). For tests in
 * a guest; nothing here touches hardware.
 */
#include <linux/cpumask.h>
#include <linux/device.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#define MOST_EVENTS 240
#define PADDING_EVENT 0xC000
#define MOST_PERIOD 85899
#define DEFAULT_SAMPLES 128
#define DEFAULT_PERIOD 3
#define HEADER_WORDS 7

static int counters = 8;
module_param(counters, int, 0444);
MODULE_PARM_DESC(counters, "counters used in parallel on each CPU");
static int cpus = 8;
module_param(cpus, int, 0444);
MODULE_PARM_DESC(cpus, "monitored CPUs, a multiple of 8");
static int compatible;
module_param(compatible, int, 0444);
MODULE_PARM_DESC(compatible, "no cycle counter");
static int buffer_size;
module_param(buffer_size, int, 0644);
MODULE_PARM_DESC(buffer_size, "bytes of one AUX buffer; 0: a quarter of the AUX area");
static int flag_every;
module_param(flag_every, int, 0644);
MODULE_PARM_DESC(flag_every, "every that many buffers, say that data was lost; 0: only when it was");

struct area {
	u8 *base;
	unsigned long size;
};

static struct {
	struct pmu pmu;
	struct perf_output_handle handle;
	struct hrtimer timer;
	struct perf_event *event;
	struct area *area;	/* NULL: no room, or not started */
	u16 events[MOST_EVENTS];
	int nr_events;
	u32 sample, wanted, period;
	u32 buffer, position;	/* size of a buffer, where in it the next sample goes */
	u32 commits;
	bool begun;		/* the header has been written */
} unit;

static u32 used(void)
{
	return min(unit.nr_events, counters);
}

static u32 subsamples(void)
{
	return DIV_ROUND_UP(unit.nr_events, used());
}

static u32 subsample_size(void)
{
	return (used() + (compatible ? 1 : 2)) * 8 * cpus;
}

static u32 header_size(void)
{
	return ALIGN((HEADER_WORDS + subsamples() * used()) * 4, 16);
}

static u32 event_at(u32 index)
{
	return index < unit.nr_events ? unit.events[index] : PADDING_EVENT;
}

static u64 value_of(u32 sample, u32 cpu, u32 event)
{
	return event == PADDING_EVENT ? 0 : 1000000ULL * event + 64 * sample + cpu;
}

static u8 *put32(u8 *at, u32 value)
{
	*(__le32 *)at = cpu_to_le32(value);
	return at + 4;
}

static u8 *put64(u8 *at, u64 value)
{
	*(__le64 *)at = cpu_to_le64(value);
	return at + 8;
}

/* the CPU that stands at this place of a field: the id within the cluster first, then the cluster */
static u32 cpu_at(u32 place)
{
	u32 clusters = cpus / 8;

	return place % clusters * 8 + place / clusters;
}

static void write_header(u8 *at)
{
	u8 *start = at;
	u32 i;

	at = put32(at, unit.buffer);
	at = put32(at, used());
	at = put32(at, cpus);
	at = put32(at, compatible);
	at = put32(at, subsample_size());
	at = put32(at, subsamples());
	at = put32(at, subsamples() * used());
	for (i = 0; i < subsamples() * used(); i++)
		at = put32(at, event_at(i));
	memset(at, 0, start + header_size() - at);
}

static void write_sample(u8 *at)
{
	u32 part, i, place;

	for (part = 0; part < subsamples(); part++) {
		for (place = 0; place < cpus; place++)
			at = put32(at, 1000 + cpu_at(place));
		for (place = 0; place < cpus; place++)
			at = put32(at, 2000 + cpu_at(place));
		for (i = 0; i < used(); i++)
			for (place = 0; place < cpus; place++)
				at = put64(at, value_of(unit.sample, cpu_at(place), event_at(part * used() + i)));
		for (place = 0; place < cpus && !compatible; place++)
			at = put64(at, 5000000000ULL + 1000 * unit.sample + 100 * part + cpu_at(place));
	}
}

/* take the next buffer of the AUX area; false when there is no room for one */
static bool take_buffer(void)
{
	unit.area = perf_aux_output_begin(&unit.handle, unit.event);
	if (!unit.area)
		return false;
	if (!unit.begun)
		unit.buffer = buffer_size ? buffer_size : unit.area->size / 4;
	if (unit.handle.size < unit.buffer) {
		perf_aux_output_flag(&unit.handle, PERF_AUX_FLAG_TRUNCATED);
		perf_aux_output_end(&unit.handle, 0);
		unit.area = NULL;
		return false;
	}
	unit.position = 0;
	if (!unit.begun) {
		write_header(unit.area->base + (unit.handle.head & (unit.area->size - 1)));
		unit.position = header_size();
		unit.begun = true;
	}
	return true;
}

static void give_buffer(u32 size)
{
	if (!unit.area)
		return;
	if (flag_every && ++unit.commits % flag_every == 0)
		perf_aux_output_flag(&unit.handle, PERF_AUX_FLAG_TRUNCATED);
	smp_wmb();
	perf_aux_output_end(&unit.handle, size);
	unit.area = NULL;
}

static enum hrtimer_restart tick(struct hrtimer *timer)
{
	u32 size = subsamples() * subsample_size();

	if (unit.area && unit.position + size > unit.buffer)
		give_buffer(unit.buffer);
	if (unit.area || take_buffer()) {
		write_sample(unit.area->base + (unit.handle.head & (unit.area->size - 1)) + unit.position);
		unit.position += size;
		unit.wanted--;
	}
	unit.sample++;
	if (!unit.wanted) {
		give_buffer(unit.position);
		return HRTIMER_NORESTART;
	}
	hrtimer_forward_now(timer, ms_to_ktime(unit.period));
	return HRTIMER_RESTART;
}

static int standin_event_init(struct perf_event *event)
{
	u32 period = event->attr.config >> 32;

	if (event->attr.type != event->pmu->type)
		return -ENOENT;
	if (event->cpu != 0 || event->attach_state & PERF_ATTACH_TASK || event->attr.sample_period != 1 || event->attr.freq)
		return -EOPNOTSUPP;
	if (period > MOST_PERIOD || event->attr.config1 > 0xff || !unit.nr_events)
		return -EINVAL;
	return perfmon_capable() ? 0 : -EACCES;
}

static void standin_start(struct perf_event *event, int flags)
{
	unit.event = event;
	unit.sample = 0;
	unit.wanted = (u32)event->attr.config ?: DEFAULT_SAMPLES;
	unit.period = event->attr.config >> 32 ?: DEFAULT_PERIOD;
	unit.begun = false;
	event->hw.state = 0;
	hrtimer_start(&unit.timer, ms_to_ktime(unit.period), HRTIMER_MODE_REL_PINNED_HARD);
}

static void standin_stop(struct perf_event *event, int flags)
{
	if (event->hw.state & PERF_HES_STOPPED)
		return;
	hrtimer_try_to_cancel(&unit.timer);
	give_buffer(unit.position);
	event->hw.state |= PERF_HES_STOPPED | PERF_HES_UPTODATE;
}

static int standin_add(struct perf_event *event, int flags)
{
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	if (flags & PERF_EF_START)
		standin_start(event, PERF_EF_RELOAD);
	return 0;
}

static void standin_del(struct perf_event *event, int flags)
{
	standin_stop(event, PERF_EF_UPDATE);
}

static void standin_read(struct perf_event *event)
{
}

static void *standin_setup_aux(struct perf_event *event, void **pages, int nr_pages, bool overwrite)
{
	struct page **list;
	struct area *area;
	int i;

	if (overwrite)
		return NULL;
	area = kzalloc(sizeof(*area), GFP_KERNEL);
	list = kcalloc(nr_pages, sizeof(*list), GFP_KERNEL);
	for (i = 0; list && i < nr_pages; i++)
		list[i] = virt_to_page(pages[i]);
	if (area && list)
		area->base = vmap(list, nr_pages, VM_MAP, PAGE_KERNEL);
	kfree(list);
	if (!area || !area->base) {
		kfree(area);
		return NULL;
	}
	area->size = (unsigned long)nr_pages << PAGE_SHIFT;
	return area;
}

static void standin_free_aux(void *aux)
{
	struct area *area = aux;

	vunmap(area->base);
	kfree(area);
}

PMU_FORMAT_ATTR(nr_sample, "config:0-31");
PMU_FORMAT_ATTR(sample_period_ms, "config:32-63");
PMU_FORMAT_ATTR(pmccfiltr, "config1:0-7");

static struct attribute *format_files[] = {
	&format_attr_nr_sample.attr, &format_attr_sample_period_ms.attr, &format_attr_pmccfiltr.attr, NULL,
};

static const struct attribute_group format_group = { .name = "format", .attrs = format_files };

static ssize_t cpumask_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return cpumap_print_to_pagebuf(true, buf, cpumask_of(0));
}

static ssize_t monitored_cpus_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "0-%d\n", cpus - 1);
}

static ssize_t user_events_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	ssize_t length = 0;
	int i;

	for (i = 0; i < unit.nr_events; i++)
		length += sysfs_emit_at(buf, length, "0x%04x\n", unit.events[i]);
	return length;
}

static ssize_t user_events_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	u16 events[MOST_EVENTS];
	int nr = 0, used;
	u32 event;

	while (nr < MOST_EVENTS && sscanf(buf, " %x%n", &event, &used) == 1) {
		if (event > 0xffff)
			return -EINVAL;
		events[nr++] = event;
		buf += used;
	}
	memcpy(unit.events, events, sizeof(events));
	unit.nr_events = nr;
	return count;
}

static DEVICE_ATTR_RO(cpumask);
static DEVICE_ATTR_RO(monitored_cpus);
static DEVICE_ATTR_RW(user_events);

static struct attribute *device_files[] = {
	&dev_attr_cpumask.attr, &dev_attr_monitored_cpus.attr, &dev_attr_user_events.attr, NULL,
};

static const struct attribute_group device_group = { .attrs = device_files };
static const struct attribute_group *groups[] = { &format_group, &device_group, NULL };

static int __init standin_init(void)
{
	if (counters < 1 || counters > 8 || cpus < 8 || cpus % 8)
		return -EINVAL;
	hrtimer_init(&unit.timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	unit.timer.function = tick;
	unit.pmu = (struct pmu) {
		.module = THIS_MODULE,
		.task_ctx_nr = perf_invalid_context,
		.capabilities = PERF_PMU_CAP_EXCLUSIVE | PERF_PMU_CAP_NO_EXCLUDE,
		.attr_groups = groups,
		.event_init = standin_event_init,
		.add = standin_add,
		.del = standin_del,
		.start = standin_start,
		.stop = standin_stop,
		.read = standin_read,
		.setup_aux = standin_setup_aux,
		.free_aux = standin_free_aux,
	};
	return perf_pmu_register(&unit.pmu, "hisi_pmcu_sccl0", -1);
}

static void __exit standin_exit(void)
{
	perf_pmu_unregister(&unit.pmu);
}

module_init(standin_init);
module_exit(standin_exit);
MODULE_DESCRIPTION("A PMU that looks like the HiSilicon PMCU, for tests");
MODULE_LICENSE("Dual MIT/GPL");
