import type { FastifyInstance, FastifyReply } from 'fastify'
import { isKeyId } from '../../domain/id-form.ts'
import {
  describeRejectedField,
  errorSummary,
  hidden,
  NO_PROBLEMS,
  type Problems,
  textField,
} from '../platform/html/form-parts.ts'
import { cell, type Html, html } from '../platform/html/html.ts'
import { type Frame, page, workspaceName } from '../platform/html/layout.ts'
import {
  ADMINISTRATION,
  ADMINISTRATION_CHANGES,
  createFrame,
  readFormFields,
  requireWorkspace,
  sendPage,
} from '../platform/html/page-request.ts'
import { ALL_USAGE, keysPath, PLANS, planPath, WORKSPACES } from '../platform/html/paths.ts'
import { describeCaller } from '../platform/http/request-context.ts'
import { type BulkOutcome, setWorkspacePlan } from './bulk-change.ts'
import { describeExtent, watchedSteps } from './bulk-progress-page.ts'
import { planInput } from './key-form.ts'
import type { KeyPageParts } from './key-view.ts'
import type { Registry } from './operations/registry.ts'
import type { PlanCount } from './rows/plans.ts'

const PLAN = `${WORKSPACES}/:workspaceId/plan`
const PLAN_TITLE = 'Plan of the workspace'

/**
 * For administrators: how many keys and workspaces have each plan, and giving a workspace one. The choice is confirmed on a page that
 * names how many keys it changes.
 */
export function planRoutes(scope: FastifyInstance, { registry }: KeyPageParts): void {
  scope.get(PLANS, ADMINISTRATION, (_, reply) => showPlans(registry, reply))
  scope.get(PLAN, ADMINISTRATION, (_, reply) => showPlanForm(registry, reply, NO_PROBLEMS))
  scope.post(PLAN, ADMINISTRATION_CHANGES, (_, reply) => choosePlan(registry, reply))
}

async function showPlanForm(
  registry: Registry,
  reply: FastifyReply,
  problems: Problems,
): Promise<FastifyReply> {
  const workspaceId = requireWorkspace(reply.request)
  const frame = createFrame(reply, { workspaceId, clock: registry.clock })
  const plan = await registry.plans.findPlan(workspaceId)
  const input = planInput(plan ?? '', problems, registry.knownPlans)
  return sendPage(reply, planPage(frame, { workspaceId, input, problems }), problems.size > 0 ? 422 : 200)
}

async function choosePlan(registry: Registry, reply: FastifyReply): Promise<FastifyReply> {
  const { request } = reply
  const workspaceId = requireWorkspace(request)
  const fields = readFormFields(request)
  const [chosen, untilId] = [textField(fields, 'plan'), textField(fields, 'until')]
  const plan = chosen === '' ? null : chosen
  const frame = createFrame(reply, { workspaceId, clock: registry.clock })
  if (textField(fields, 'confirmed') !== '1') {
    const liveKeys = await registry.search.countLive(workspaceId)
    return sendPage(reply, confirmPlanPage(frame, { workspaceId, plan }, liveKeys))
  }
  const context = {
    caller: describeCaller(request),
    mustWait: true,
    untilId: isKeyId(untilId) ? untilId : null,
  }
  const outcome = await setWorkspacePlan(registry, { workspaceId, plan }, context)
  if (outcome.kind === 'invalid') return showPlanForm(registry, reply, describeRejectedField(outcome))
  if (outcome.kind === 'other_plan') return showPlanForm(registry, reply, OTHER_PLAN)
  return sendPage(reply, planChangedPage(frame, { workspaceId, plan }, outcome))
}

const OTHER_PLAN: Problems = new Map([
  ['plan', 'The plan was changed again. All keys get the plan below; your change was stopped'],
])

interface PlanView {
  readonly workspaceId: string
  /** Null where there is nothing to choose. */
  readonly input: Html | null
  readonly problems: Problems
}

function planPage(frame: Frame, { workspaceId, input, problems }: PlanView): Html {
  const back = keysPath(workspaceId)
  const form = html`<form class="card" method="post" action="${planPath(workspaceId)}" novalidate>
      ${hidden({ _csrf: frame.csrfToken })}
      ${input}
      <div class="actions"><button class="primary">Continue</button> <a href="${back}">Cancel</a></div>
    </form>`
  const none = html`<p class="empty">No plan is configured. Plans are in the settings, under <code>limits.plans</code>.</p>`
  const main = html`<p class="back"><a href="${back}">Keys</a></p>
    <h1>${PLAN_TITLE}</h1>
    <p class="lead">The rate limits of every key of workspace <strong>${workspaceId}</strong>${workspaceName(frame, workspaceId)}, and of those that are issued later.</p>
    ${errorSummary(problems)}
    ${input === null ? none : form}`
  return page(frame, { title: PLAN_TITLE, section: 'keys', main, isWrong: problems.size > 0 })
}

interface PlanChoice {
  readonly workspaceId: string
  readonly plan: string | null
}

function planName(plan: string | null): Html {
  return plan === null ? html`no plan` : html`plan <strong>${plan}</strong>`
}

function confirmPlanPage(frame: Frame, { workspaceId, plan }: PlanChoice, liveKeys: number): Html {
  const keys = html`${describeExtent(liveKeys)}, also those with another plan of their own, and to `
  const fields = { _csrf: frame.csrfToken, plan: plan ?? '', confirmed: '1' }
  const main = html`<h1>Change the plan?</h1>
    <p class="lead">Workspace <strong>${workspaceId}</strong>${workspaceName(frame, workspaceId)} gets ${planName(plan)}. It applies to ${liveKeys === 0 ? null : keys}keys that are issued later.</p>
    <form class="card" method="post" action="${planPath(workspaceId)}">
      ${hidden(fields)}
      <p>Gateways apply the rate limits of the plan within one second.</p>
      <div class="actions"><a class="button" href="${keysPath(workspaceId)}" autofocus>Keep the current plan</a> <button class="primary">Change the plan</button></div>
    </form>`
  return page(frame, { title: 'Change the plan?', section: 'keys', main })
}

/** Where some keys are left, the script goes on by itself, and without it a person does. */
function planChangedPage(frame: Frame, { workspaceId, plan }: PlanChoice, outcome: BulkOutcome): Html {
  const { changed, leftUntilId } = outcome
  const rest = { _csrf: frame.csrfToken, plan: plan ?? '', confirmed: '1', until: leftUntilId ?? '' }
  const goOn = html`<form class="card" method="post" action="${planPath(workspaceId)}" data-continues>
      ${hidden(rest)}
      <p>The console changes many keys in steps of some seconds. Keep this page open until the last one.</p>
      <div class="actions"><button class="primary">Change the rest</button></div>
    </form>`
  const main = html`<p class="back"><a href="${keysPath(workspaceId)}">Keys</a></p>
    <h1>Plan changed</h1>
    <p class="lead" role="status">Workspace <strong>${workspaceId}</strong> has ${planName(plan)}. This step changed ${describeExtent(changed)}.</p>
    ${leftUntilId === null ? watchedSteps(frame, outcome, 'plan') : goOn}
    <p class="actions"><a class="button" href="${keysPath(workspaceId)}">All keys</a></p>`
  return page(frame, { title: 'Plan changed', section: 'keys', main })
}

async function showPlans(registry: Registry, reply: FastifyReply): Promise<FastifyReply> {
  const counts = await registry.plans.countByPlan()
  const frame = createFrame(reply, { workspaceId: null, clock: registry.clock })
  const main = html`<p class="back"><a href="${ALL_USAGE}">Usage of all workspaces</a></p>
    <h1>Plans</h1>
    ${counts === null ? html`<p class="notice">There are too many keys to count in two seconds.</p>` : planTable(counts, registry.knownPlans)}`
  return sendPage(reply, page(frame, { title: 'Plans', section: null, main }))
}

/** Plans of the settings in their order, then those that keys have and the settings do not, then keys without one. */
function planTable(counts: readonly PlanCount[], known: readonly string[]): Html {
  const found = new Map(counts.map(count => [count.plan, count]))
  const unknown = counts.flatMap(({ plan }) => (plan === null || known.includes(plan) ? [] : [plan])).sort()
  const names = [...known, ...unknown, null]
  return html`<p class="lead">Keys that have not ended, and the workspaces that have such keys.</p>
    ${unknown.length === 0 ? null : html`<p class="notice warn">The settings of this console do not name every plan that keys have. Gateways that do not know a plan apply the limits of keys without a plan. Add it to <code>limits.plans</code>, or change the plan of the keys: <code>postern keys list --plan ${unknown[0] ?? ''}</code> lists them.</p>`}
    <table class="stacks"><caption class="hidden">Keys and workspaces by plan</caption>
      <thead><tr><th scope="col">Plan</th><th scope="col">Keys</th><th scope="col">Workspaces</th></tr></thead>
      <tbody>${names.map(plan => planRow(found.get(plan) ?? { plan, keys: 0, workspaces: 0 }, known))}</tbody></table>`
}

function planRow({ plan, keys, workspaces }: PlanCount, known: readonly string[]): Html {
  const isKnown = plan !== null && known.includes(plan)
  const unknown = html`${plan} <span class="badge revoked">unknown plan</span>`
  const name = plan === null ? html`<span class="muted">No plan</span>` : isKnown ? plan : unknown
  return html`<tr><th scope="row">${name}</th>
    ${cell('Keys', isKnown && keys > 0 ? html`<a href="${keysPath(null, { plan })}">${keys}</a>` : keys)}
    ${cell('Workspaces', workspaces)}</tr>`
}
