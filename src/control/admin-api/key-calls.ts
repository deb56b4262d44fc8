import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import type { AdminCall } from '../http/calls.ts'
import { seesWorkspace } from '../http/request-context.ts'
import { createOperationCounter } from '../registry/operations/operation-counter.ts'
import type { Registry } from '../registry/registry.ts'
import { listQuery } from './admin-schemas.ts'
import { bulkCalls } from './bulk-calls.ts'
import { exportCalls } from './export-calls.ts'
import { importCalls } from './import-calls.ts'
import { keyJson, keyWithUseJson, listJson } from './key-json.ts'
import { keyOperationCalls } from './key-operation-calls.ts'
import { setVersionTag } from './operation-answer.ts'
import { KEY, keyIdOf, noSuchKey, readPageOptions, WORKSPACE_KEYS } from './request-parameters.ts'
import { searchCalls } from './search-calls.ts'

/** The admin API on keys, without its prefix. */
export function keyCalls(registry: Registry, metrics: Metrics): AdminCall[] {
  const count = createOperationCounter(metrics)
  return [
    ...keyOperationCalls(registry, count),
    ...bulkCalls(registry, count),
    ...searchCalls(registry),
    ...exportCalls(registry),
    ...importCalls(registry, count),
    {
      method: 'GET',
      url: WORKSPACE_KEYS,
      operation: 'list',
      permission: 'keys:read',
      workspaces: 'own',
      schema: { querystring: listQuery },
      handle: request => listKeys(registry, request),
    },
    {
      method: 'GET',
      url: KEY,
      operation: 'get',
      permission: 'keys:read',
      workspaces: 'own',
      handle: (request, reply) => getKey(registry, request, reply),
    },
  ]
}

async function listKeys({ repository, clock }: Registry, request: FastifyRequest): Promise<unknown> {
  const { keys, nextAfterId } = await repository.list(readPageOptions(request))
  const uses = await repository.lastUses(keys.map(key => key.record.id))
  const records = keys.map(({ record }) => keyJson(record, clock, uses.get(record.id) ?? null))
  return listJson({ keys: records }, nextAfterId)
}

async function getKey(registry: Registry, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const key = await registry.repository.findById(keyIdOf(request))
  if (key === null || !seesWorkspace(request, key.record.workspaceId)) throw noSuchKey()
  request.keyId = key.record.id
  setVersionTag(reply, key.record)
  return { key: await keyWithUseJson(registry, key.record) }
}
