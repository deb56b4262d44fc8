import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { isKeyId } from '../platform/database/ids.ts'
import { errorSummary, hidden, NO_PROBLEMS, type Problems, textField } from '../platform/html/form-parts.ts'
import { type Html, html } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import {
  ADMINISTRATION,
  ADMINISTRATION_CHANGES,
  createFrame,
  readFormFields,
  requireWorkspace,
  sendPage,
} from '../platform/html/page-request.ts'
import { keysPath, planPath, WORKSPACES } from '../platform/html/paths.ts'
import { describeCaller } from '../platform/http/request-context.ts'
import { type BulkOutcome, setWorkspacePlan } from './bulk-change.ts'
import { bulkSteps } from './change-progress.ts'
import { describeRejectedField, planInput } from './key-form.ts'
import type { KeyPageParts } from './key-view.ts'
import type { Registry } from './registry.ts'
import { MAX_LIVE } from './search/count-keys.ts'

const PATH = `${WORKSPACES}/:workspaceId/plan`
const TITLE = 'Plan of the workspace'

/** The page on which administrators give a workspace a plan. The choice is confirmed on a page that names how many keys it changes. */
export function planRoutes(scope: FastifyInstance, { registry }: KeyPageParts): void {
  scope.get(PATH, ADMINISTRATION, (request, reply) => showForm(registry, request, reply, NO_PROBLEMS))
  scope.post(PATH, ADMINISTRATION_CHANGES, (request, reply) => choose(registry, request, reply))
}

async function showForm(
  registry: Registry,
  request: FastifyRequest,
  reply: FastifyReply,
  problems: Problems,
): Promise<FastifyReply> {
  const workspaceId = requireWorkspace(request)
  const frame = createFrame(request, reply, { workspaceId, clock: registry.clock })
  const plan = await registry.repository.findPlan(workspaceId)
  const input = planInput(plan ?? '', problems, registry.knownPlans)
  return sendPage(reply, planPage(frame, { workspaceId, input, problems }), problems.size > 0 ? 422 : 200)
}

async function choose(
  registry: Registry,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const workspaceId = requireWorkspace(request)
  const fields = readFormFields(request)
  const [chosen, untilId] = [textField(fields, 'plan'), textField(fields, 'until')]
  const plan = chosen === '' ? null : chosen
  const frame = createFrame(request, reply, { workspaceId, clock: registry.clock })
  if (textField(fields, 'confirmed') !== '1') {
    const liveKeys = await registry.repository.countLive(workspaceId)
    return sendPage(reply, confirmPage(frame, { workspaceId, plan }, describeExtent(liveKeys)))
  }
  const context = {
    caller: describeCaller(request),
    mustWait: true,
    untilId: isKeyId(untilId) ? untilId : null,
  }
  const outcome = await setWorkspacePlan(registry, { workspaceId, plan }, context)
  if (outcome.kind === 'invalid') return showForm(registry, request, reply, describeRejectedField(outcome))
  return sendPage(reply, changedPage(frame, { workspaceId, plan }, outcome))
}

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
    <h1>${TITLE}</h1>
    <p class="lead">The rate limits of every key of workspace <strong>${workspaceId}</strong>, and of those that are issued later.</p>
    ${errorSummary(problems)}
    ${input === null ? none : form}`
  return page(frame, { title: problems.size > 0 ? `Error: ${TITLE}` : TITLE, section: 'keys', main })
}

interface Choice {
  readonly workspaceId: string
  readonly plan: string | null
}

function planName(plan: string | null): Html {
  return plan === null ? html`no plan` : html`plan <strong>${plan}</strong>`
}

function confirmPage(frame: Frame, { workspaceId, plan }: Choice, extent: string): Html {
  const fields = { _csrf: frame.csrfToken, plan: plan ?? '', confirmed: '1' }
  const main = html`<h1>Change the plan?</h1>
    <p class="lead">Workspace <strong>${workspaceId}</strong> gets ${planName(plan)}: so do ${extent}, also those with another plan of their own, and keys that are issued later.</p>
    <form class="card" method="post" action="${planPath(workspaceId)}">
      ${hidden(fields)}
      <p>Gateways apply the rate limits of the plan within one second.</p>
      <div class="actions"><a class="button" href="${keysPath(workspaceId)}" autofocus>Keep it</a> <button class="primary">Change the plan</button></div>
    </form>`
  return page(frame, { title: 'Change the plan?', section: 'keys', main })
}

function describeExtent(liveKeys: number): string {
  if (liveKeys > MAX_LIVE) return `more than ${MAX_LIVE.toLocaleString('en')} keys`
  return `${liveKeys.toLocaleString('en')} ${liveKeys === 1 ? 'key' : 'keys'}`
}

/** Where some keys are left, the script goes on by itself, and without it a person does. */
function changedPage(
  frame: Frame,
  { workspaceId, plan }: Choice,
  { changed, announced, gateways, leftUntilId }: BulkOutcome,
): Html {
  const rest = { _csrf: frame.csrfToken, plan: plan ?? '', confirmed: '1', until: leftUntilId ?? '' }
  const goOn = html`<form class="card" method="post" action="${planPath(workspaceId)}" data-continues>
      ${hidden(rest)}
      <p>The console changes many keys in steps of some seconds. Keep this page open until the last one.</p>
      <div class="actions"><button class="primary">Change the rest</button></div>
    </form>`
  const main = html`<p class="back"><a href="${keysPath(workspaceId)}">Keys</a></p>
    <h1>Plan changed</h1>
    <p class="lead" role="status">Workspace <strong>${workspaceId}</strong> has ${planName(plan)}. This step changed ${describeExtent(changed)}.</p>
    ${leftUntilId === null ? bulkSteps({ announced, gateways }) : goOn}
    <p class="actions"><a class="button" href="${keysPath(workspaceId)}">All keys</a></p>`
  return page(frame, { title: 'Plan changed', section: 'keys', main })
}
