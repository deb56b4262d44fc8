import { Type } from 'typebox'
import { type AdminCall, declareCalls } from '../../platform/http/admin-call.ts'
import { seesWorkspace } from '../../platform/http/request-context.ts'
import { listJson, pageOf, pageQuery } from '../../platform/http/request-fields.ts'
import {
  KEY,
  keyIdOf,
  noSuchKey,
  readPageOptions,
  WORKSPACE_KEYS,
} from '../../platform/http/request-parameters.ts'
import { key as keySchema } from '../../platform/http/response-fields.ts'
import type { KeyParts } from '../operations/operation-counter.ts'
import { keyJson, keyWithUseJson } from './key-json.ts'
import { setVersionTag } from './operation-response.ts'

const adminCall = declareCalls<KeyParts>()

/** Calls that read keys, without their prefix. */
export const KEY_CALLS: readonly AdminCall<KeyParts>[] = [
  adminCall({
    id: 'listKeys',
    method: 'GET',
    url: WORKSPACE_KEYS,
    operation: 'list',
    permission: 'keys:read',
    workspaces: 'own',
    summary: 'Keys of a workspace, newest first',
    query: pageQuery('key'),
    status: 200,
    response: pageOf('keys', keySchema),
    errors: ['not_found'],
    handle: async ({ registry: { repository, clock } }, { request, query }) => {
      const { keys, nextAfterId } = await repository.list(readPageOptions(request, query))
      const uses = await repository.lastUses(keys.map(key => key.record.id))
      const records = keys.map(({ record }) => keyJson(record, clock, uses.get(record.id) ?? null))
      return listJson({ keys: records }, nextAfterId)
    },
  }),
  adminCall({
    id: 'getKey',
    method: 'GET',
    url: KEY,
    operation: 'get',
    permission: 'keys:read',
    workspaces: 'own',
    summary: 'One key',
    status: 200,
    responseHeaders: ['ETag'],
    response: Type.Object({ key: keySchema }),
    errors: ['not_found'],
    handle: async ({ registry }, { request, reply }) => {
      const key = await registry.repository.findById(keyIdOf(request))
      if (key === null || !seesWorkspace(request, key.record.workspaceId)) throw noSuchKey()
      request.keyId = key.record.id
      setVersionTag(reply, key.record)
      return { key: await keyWithUseJson(registry, key.record) }
    },
  }),
]
