import type { FastifyInstance } from 'fastify'
import { cell, type Html, html } from '../platform/html/html.ts'
import { page } from '../platform/html/layout.ts'
import { ADMINISTRATION, createFrame, sendPage } from '../platform/html/page-request.ts'
import { ALL_USAGE, keysPath, PLANS } from '../platform/html/paths.ts'
import type { KeyPageParts } from './key-view.ts'
import type { PlanCount } from './rows/plans.ts'

/** For administrators: how many keys and workspaces have each plan. */
export function plansRoutes(scope: FastifyInstance, { registry }: KeyPageParts): void {
  scope.get(PLANS, ADMINISTRATION, async (request, reply) => {
    const counts = await registry.plans.countByPlan()
    const frame = createFrame(request, reply, { workspaceId: null, clock: registry.clock })
    const main = html`<p class="back"><a href="${ALL_USAGE}">Usage of all workspaces</a></p>
      <h1>Plans</h1>
      ${counts === null ? html`<p class="notice">There are too many keys to count in two seconds.</p>` : table(counts, registry.knownPlans)}`
    return sendPage(reply, page(frame, { title: 'Plans', section: null, main }))
  })
}

/** Plans of the settings in their order, then those that keys have and the settings do not, then keys without one. */
function table(counts: readonly PlanCount[], known: readonly string[]): Html {
  const found = new Map(counts.map(count => [count.plan, count]))
  const unknown = counts.flatMap(({ plan }) => (plan === null || known.includes(plan) ? [] : [plan])).sort()
  const names = [...known, ...unknown, null]
  return html`<p class="lead">Keys that have not ended, and the workspaces that have such keys.</p>
    ${unknown.length === 0 ? null : html`<p class="notice warn">The settings of this console do not name every plan that keys have. Gateways that do not know a plan apply the limits of keys without a plan. Add it to <code>limits.plans</code>, or change the plan of the keys: <code>postern keys list --plan ${unknown[0] ?? ''}</code> lists them.</p>`}
    <table class="stacks"><caption class="hidden">Keys and workspaces by plan</caption>
      <thead><tr><th scope="col">Plan</th><th scope="col">Keys</th><th scope="col">Workspaces</th></tr></thead>
      <tbody>${names.map(plan => row(found.get(plan) ?? { plan, keys: 0, workspaces: 0 }, known))}</tbody></table>`
}

function row({ plan, keys, workspaces }: PlanCount, known: readonly string[]): Html {
  const isKnown = plan !== null && known.includes(plan)
  const unknown = html`${plan} <span class="badge revoked">unknown plan</span>`
  const name = plan === null ? html`<span class="muted">No plan</span>` : isKnown ? plan : unknown
  return html`<tr><th scope="row">${name}</th>
    ${cell('Keys', isKnown && keys > 0 ? html`<a href="${keysPath(null, { plan })}">${keys}</a>` : keys)}
    ${cell('Workspaces', workspaces)}</tr>`
}
