import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Clock } from '../../domain/clock.ts'
import { plainPasted } from '../../domain/form/text.ts'
import { digestKey } from '../../domain/key/secret.ts'
import { isDigest } from '../../domain/wire.ts'
import { sees } from '../platform/access/principal.ts'
import {
  errorSummary,
  type FormFields,
  hidden,
  NO_PROBLEMS,
  type Problems,
  textField,
  textInput,
} from '../platform/html/form-parts.ts'
import { type Html, html, nameHtml } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import { createFrame, findWorkspace, readFormFields, SHOWS, sendPage } from '../platform/html/page-request.ts'
import { FIND_KEY, findKeyPath, keyPath } from '../platform/html/paths.ts'
import { requirePrincipal } from '../platform/http/request-context.ts'
import { facts } from './key-form.ts'
import { type KeyPageParts, type KeyView, readActorName, readKeyView } from './key-view.ts'

const MISSING = new Map([['key', 'Paste the whole key']])

/**
 * A key that is sent in the form, without JavaScript, stays in memory: like the fields of every form, it is never put into a
 * URL, also if the session has expired.
 */
export function findKeyRoutes(scope: FastifyInstance, sources: KeyPageParts): void {
  const { clock } = sources.registry
  scope.get(FIND_KEY, SHOWS, async (_, reply) =>
    sendPage(reply, findKeyPage(frameAround(reply, clock), NO_PROBLEMS)),
  )
  scope.post(FIND_KEY, SHOWS, (_, reply) => findKey(sources, reply))
}

function frameAround(reply: FastifyReply, clock: Clock): Frame {
  return createFrame(reply, { workspaceId: findWorkspace(reply.request), clock })
}

async function findKey({ registry }: KeyPageParts, reply: FastifyReply): Promise<FastifyReply> {
  const { request } = reply
  const { stored, history, clock } = registry
  const digest = readDigest(readFormFields(request))
  const outside = frameAround(reply, clock)
  if (digest === null) return sendPage(reply, findKeyPage(outside, MISSING), 422)
  const found = await stored.findByDigest(digest)
  if (found === null || !sees(requirePrincipal(request), found.record.workspaceId)) {
    return sendPage(reply, noKeyFoundPage(outside))
  }
  const { record } = found
  request.keyId = record.id
  const frame = createFrame(reply, { workspaceId: record.workspaceId, clock })
  const [key, origin] = await Promise.all([readKeyView(record, registry), history.findOrigin(record)])
  return sendPage(reply, foundKeyPage(frame, key, readActorName(origin)))
}

/** @returns null without a key */
function readDigest(fields: FormFields): string | null {
  const digest = textField(fields, 'digest')
  if (isDigest(digest)) return digest
  const key = plainPasted(textField(fields, 'key'))
  return key === '' ? null : digestKey(key)
}

/** It never shows what was sent: that may be a key. */
function findKeyPage(frame: Frame, problems: Problems): Html {
  const main = html`<h1>Find a key</h1>
    <p class="lead">You hold a key, for example from a log or a repository, and want to know which one it is.</p>
    ${errorSummary(problems)}
    ${findForm(frame, problems)}`
  return page(frame, { title: 'Find a key', section: null, main, isWrong: problems.size > 0 })
}

/** The script sends the digest alone. */
function findForm({ csrfToken, workspaceId }: Frame, problems: Problems): Html {
  const hint = html`The whole key, such as <code>wsk_…</code>. Your browser sends only its SHA-256 digest; with JavaScript disabled, it sends the key, which Postern neither stores nor logs`
  return html`<form class="card" method="post" action="${findKeyPath(workspaceId)}" data-digests novalidate>
    ${hidden({ _csrf: csrfToken, digest: '' })}
    ${textInput({ name: 'key', label: 'Key', hint, problems }, '', html`type="text" spellcheck="false" autocapitalize="off" required`)}
    <div class="actions"><button class="primary">Find</button></div>
  </form>`
}

/** @param creator name of the person who issued it; null if none is known */
function foundKeyPage(frame: Frame, key: KeyView, creator: string | null): Html {
  const { record, state } = key
  const isEnded = state === 'expired' || state === 'revoked'
  const revoke = html`<a class="button danger" href="${keyPath(record.workspaceId, record.id, 'revoke')}">Revoke</a>`
  const main = html`<p class="back"><a href="${findKeyPath(record.workspaceId)}">Find a key</a></p>
    <h1>${nameHtml(record)}</h1>
    <p class="lead">A key of workspace <strong>${record.workspaceId}</strong> has this secret.${
      isEnded ? ' Gateways reject it already.' : ' If it has leaked, revoke it, or rotate it without overlap.'
    }</p>
    <section class="card"><h2>Details</h2>${facts(key, frame.nowMs, creator)}</section>
    <p class="actions"><a class="button primary" href="${keyPath(record.workspaceId, record.id)}">Show the key</a> ${isEnded || !frame.mayChange ? null : revoke}</p>`
  return page(frame, { title: `Key ${record.hint}`, section: 'keys', main })
}

/** The same for a key of a workspace that the person cannot access. */
function noKeyFoundPage(frame: Frame): Html {
  const main = html`<h1>No such key</h1>
    <p class="lead">No key of the workspaces that you can access has this secret.</p>
    <div class="card"><p>Check that you have copied the whole key. It may also belong to another workspace or to another installation of Postern.</p>
    <p class="actions"><a class="button primary" href="${findKeyPath(frame.workspaceId)}">Find another key</a></p></div>`
  return page(frame, { title: 'No such key', section: null, main })
}
