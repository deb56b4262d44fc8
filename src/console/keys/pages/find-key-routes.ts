import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { digestOf } from '../../../domain/key/secret.ts'
import { plainPasted } from '../../../domain/pasted-text.ts'
import { sees } from '../../platform/access/principal.ts'
import { type FormFields, NO_PROBLEMS, textField } from '../../platform/html/form-fields.ts'
import { SHOWS } from '../../platform/html/guards.ts'
import { fieldsOf, frameOf, sendPage } from '../../platform/html/page-request.ts'
import { FIND_KEY } from '../../platform/html/paths.ts'
import { principalOf } from '../../platform/http/request-context.ts'
import { findKeyPage, foundKeyPage, noKeyFoundPage } from './find-key-page.ts'
import type { KeyPageParts } from './key-page-parts.ts'
import { creatorOf, viewOf } from './key-request.ts'

const DIGEST = /^[0-9a-f]{64}$/
const MISSING = new Map([['key', 'Paste the whole key']])

/**
 * A key that is sent in the form, without JavaScript, stays in memory: like the fields of every form, it is never put into a
 * URL, also if the session has expired.
 */
export function findKeyRoutes(scope: FastifyInstance, sources: KeyPageParts): void {
  const { clock } = sources.registry
  scope.get(FIND_KEY, SHOWS, async (request, reply) =>
    sendPage(reply, findKeyPage(frameOf(request, reply, { workspaceId: null, clock }), NO_PROBLEMS)),
  )
  scope.post(FIND_KEY, SHOWS, (request, reply) => findKey(sources, request, reply))
}

async function findKey(
  { registry }: KeyPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { repository, clock } = registry
  const digest = readDigest(fieldsOf(request))
  const outside = frameOf(request, reply, { workspaceId: null, clock })
  if (digest === null) return sendPage(reply, findKeyPage(outside, MISSING), 422)
  const found = await repository.findByDigest(digest)
  if (found === null || !sees(principalOf(request), found.record.workspaceId)) {
    return sendPage(reply, noKeyFoundPage(outside))
  }
  const { record } = found
  request.keyId = record.id
  const frame = frameOf(request, reply, { workspaceId: record.workspaceId, clock })
  const [key, origin] = await Promise.all([viewOf(record, registry), repository.findOrigin(record)])
  return sendPage(reply, foundKeyPage(frame, key, creatorOf(origin)))
}

/** @returns null without a key */
function readDigest(fields: FormFields): string | null {
  const digest = textField(fields, 'digest')
  if (DIGEST.test(digest)) return digest
  const key = plainPasted(textField(fields, 'key'))
  return key === '' ? null : digestOf(key)
}
