import type { FastifyReply, FastifyRequest } from 'fastify'
import { isWorkspaceId } from '../../domain/key/key-record.ts'
import { holdsKeyForm } from '../../domain/key/secret.ts'
import { plainPasted } from '../../domain/pasted-text.ts'
import type { Registry } from '../keys/registry.ts'
import type { Capability } from '../platform/capability.ts'
import { NO_PROBLEMS, type Problems, searchText, textField } from '../platform/html/form-fields.ts'
import { SHOWS } from '../platform/html/guards.ts'
import { frameOf, notFound, queryOf, sendPage, workspaceOf } from '../platform/html/page-request.ts'
import { FIND_KEY, keysPath, WORKSPACES } from '../platform/html/paths.ts'
import { personOfRequest } from '../platform/html/signed-in.ts'
import { workspacesPage } from './workspaces-page.ts'

const WORKSPACES_PER_PAGE = 50
/** Counted in some 20 ms. */
const MAX_KEYS_COUNTED = 50_000

/** Which workspaces there are, and the way to each. */
export function createWorkspaces(registry: Registry): Capability {
  return {
    registerPages(scope) {
      scope.get('/', SHOWS, async (request, reply) => reply.redirect(startPath(request), 303))
      scope.get(WORKSPACES, SHOWS, (request, reply) => listWorkspaces(registry, request, reply))
      scope.get(`${WORKSPACES}/:workspaceId`, SHOWS, async (request, reply) =>
        reply.redirect(keysPath(workspaceOf(request)), 303),
      )
      scope.get(`${WORKSPACES}/*`, SHOWS, async () => {
        throw notFound()
      })
    },
  }
}

/** A person with one workspace goes straight to it. */
function startPath(request: FastifyRequest): string {
  const { workspaces, administrator } = personOfRequest(request)
  const [first] = workspaces
  return first !== undefined && workspaces.length === 1 && !administrator ? keysPath(first) : WORKSPACES
}

async function listWorkspaces(
  registry: Registry,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { workspaces, administrator } = personOfRequest(request)
  const query = queryOf(request)
  const sent = query['workspace'] !== undefined && administrator
  const typed = plainPasted(textField(query, 'workspace'))
  const q = searchText(textField(query, 'q'))
  // A redirect leaves no entry in the browser's history.
  if ([typed, q].some(text => holdsKeyForm(text, registry.keyPrefix))) return reply.redirect(FIND_KEY, 303)
  if (sent && isWorkspaceId(typed)) return reply.redirect(keysPath(typed), 303)
  const problems: Problems = sent ? new Map([['workspace', WORKSPACE_ID_EXPECTED]]) : NO_PROBLEMS
  const cursor = textField(query, 'cursor')
  const afterId = isWorkspaceId(cursor) ? cursor : null
  const found = await registry.repository.listWorkspaces({
    workspaceIds: administrator ? null : workspaces,
    text: q === '' ? null : q,
    limit: WORKSPACES_PER_PAGE,
    afterId,
    maxKeysCounted: MAX_KEYS_COUNTED,
  })
  const frame = frameOf(request, reply, { workspaceId: null, clock: registry.clock })
  const paging = { nextCursor: found.nextAfterId, isFirstPage: afterId === null }
  const page = workspacesPage(frame, { workspaces: found.workspaces, q, ...paging, typed, problems })
  return sendPage(reply, page, sent ? 422 : 200)
}

const WORKSPACE_ID_EXPECTED =
  'Enter the id of a workspace: 1 to 128 letters, digits and the characters - . _ ~, such as ws_1'
