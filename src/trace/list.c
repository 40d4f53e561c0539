/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of pages. */
#include "trace/policy.h"

void g4_sim_start(struct g4_sim_set *set)
{
	*set = (struct g4_sim_set){.target = 0};
	for (uint32_t i = 0; i < G4_SIM_LISTS; i++)
		set->lists[i] = (struct g4_sim_list){G4_NO_PAGE, G4_NO_PAGE, 0};
	for (uint32_t i = 0; i < G4_SIM_HANDS; i++)
		set->hands[i] = G4_NO_PAGE;
}

void g4_sim_insert(struct g4_sim *sim, struct g4_sim_set *set, uint32_t list, uint32_t page, uint32_t older)
{
	struct g4_sim_list *l = &set->lists[list];
	struct g4_sim_page *p = &sim->pages[page];

	p->older = older;
	p->newer = older == G4_NO_PAGE ? l->oldest : sim->pages[older].newer;
	p->list = (uint8_t)(list + 1);
	if (p->newer == G4_NO_PAGE)
		l->newest = page;
	else
		sim->pages[p->newer].older = page;
	if (p->older == G4_NO_PAGE)
		l->oldest = page;
	else
		sim->pages[p->older].newer = page;
	l->count++;
}

void g4_sim_push(struct g4_sim *sim, struct g4_sim_set *set, uint32_t list, uint32_t page)
{
	g4_sim_insert(sim, set, list, page, set->lists[list].newest);
}

void g4_sim_remove(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page)
{
	struct g4_sim_page *p = &sim->pages[page];
	struct g4_sim_list *l = &set->lists[p->list - 1];

	if (p->newer == G4_NO_PAGE)
		l->newest = p->older;
	else
		sim->pages[p->newer].older = p->older;
	if (p->older == G4_NO_PAGE)
		l->oldest = p->newer;
	else
		sim->pages[p->older].newer = p->newer;
	l->count--;
	p->list = 0;
}

void g4_sim_move(struct g4_sim *sim, struct g4_sim_set *set, uint32_t list, uint32_t page)
{
	g4_sim_remove(sim, set, page);
	g4_sim_push(sim, set, list, page);
}
