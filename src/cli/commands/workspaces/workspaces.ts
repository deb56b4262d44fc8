import type { Define } from '../../cli.ts'
import { addList } from './list.ts'

/** `postern workspaces …` */
export const define: Define = (workspaces, cli) => addList(workspaces, cli)
