import type { FastifyReply, FastifyRequest } from 'fastify'
import { readQuery } from '../platform/html/page-request.ts'
import { ApiError } from '../platform/http/api-error.ts'
import { type FileFormat, sendFile } from '../platform/http/send-file.ts'
import type { Usage } from './read-usage.ts'
import { refusalJson } from './refusals-api.ts'
import { checkRefusalForm, readRefusalForm } from './refusals-form.ts'
import { requireRefusals } from './require-stored.ts'

const COLUMNS = ['at', 'code', 'reason', 'workspaceId', 'keyId', 'route', 'requestId', 'address']

/** The rejections of a page's filter, newest first, as a file. @param workspaceId null: of all workspaces */
export function sendRefusalsFile(
  usage: Usage,
  request: FastifyRequest,
  reply: FastifyReply,
  { workspaceId, format }: { readonly workspaceId: string | null; readonly format: FileFormat },
): FastifyReply {
  requireRefusals(usage)
  const checked = checkRefusalForm(readRefusalForm(readQuery(request)))
  if (!checked.ok) throw new ApiError('invalid_request', [...checked.problems.values()].join('. '))
  const { filter } = checked
  const file = {
    name: `rejections${workspaceId === null ? '' : `-${workspaceId}`}`,
    columns: COLUMNS,
    toCells: refusalJson,
    toJson: refusalJson,
    readParts: () => usage.queries.readRefusals({ filter, workspaceId }),
  }
  return sendFile(request, reply, file, format)
}
