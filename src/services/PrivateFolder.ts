/**
 * Folders of this server inside a workspace: made for one patch, and only where the state folder lies on another file
 * system. Their names cannot be guessed, nobody else can enter them, git sees nothing in them, and no tool does. Pure.
 */
import { ConfinedPath } from "../schema/Workspace.ts"

const name = /(?:^|\/)\.codespace-[0-9a-f]{16}(?:\/|$)/iu

/** Whether a path is such a folder or lies in one. */
export const isPrivate = (path: string): boolean => name.test(path)

/** Such a folder; `random` is 16 hex digits. */
export const privateFolderIn = (folder: ConfinedPath, random: string): ConfinedPath => inFolder(folder, `.codespace-${random}`)

export const inFolder = (folder: ConfinedPath, file: string): ConfinedPath => ConfinedPath.make(folder === "" ? file : `${folder}/${file}`)

/** The folder a path lies in. */
export const folderOf = (path: ConfinedPath): ConfinedPath => ConfinedPath.make(path.slice(0, Math.max(0, path.lastIndexOf("/"))))
