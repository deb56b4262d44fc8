import type { Define } from '../../cli.ts'
import { addEdit } from './edit.ts'
import { addExport } from './export.ts'
import { addFind } from './find.ts'
import { addImport } from './import.ts'
import { addIssue } from './issue.ts'
import { addList } from './list.ts'
import { addPattern } from './pattern.ts'
import { addRevoke } from './revoke.ts'
import { addRevokeAll } from './revoke-all.ts'
import { addRotate } from './rotate.ts'
import { addShow } from './show.ts'
import { addResume, addSuspend } from './suspend.ts'
import { addSync } from './sync.ts'
import { addUsage } from './usage.ts'

const COMMANDS = [
  addIssue,
  addList,
  addShow,
  addFind,
  addUsage,
  addEdit,
  addRotate,
  addSuspend,
  addResume,
  addRevoke,
  addRevokeAll,
  addSync,
  addImport,
  addExport,
  addPattern,
]

/** `postern keys …`: manages keys through the admin API. */
export const define: Define = (keys, cli) => {
  for (const add of COMMANDS) add(keys, cli)
}
