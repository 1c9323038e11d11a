/** Workspace ids, paths a caller writes, and the refusals about both. */
import { Schema } from "effect"

export const WorkspaceId = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9._-]{1,64}$/u))
  .pipe(Schema.brand("WorkspaceId"))
  .annotate({ description: "From workspace_info" })
export type WorkspaceId = typeof WorkspaceId.Type

/** Normal form of a path inside a workspace: `/`-separated, no empty, `.` or `..` component; the empty string is the root. */
export const ConfinedPath = Schema.String.pipe(Schema.brand("ConfinedPath"))
export type ConfinedPath = typeof ConfinedPath.Type

export class WorkspaceNotFound extends Schema.TaggedError<WorkspaceNotFound>()("WORKSPACE_NOT_FOUND", {
  workspace_id: Schema.String,
  known: Schema.Array(Schema.String),
}) {
  readonly retry = "change_request"
  override get message() {
    return `no workspace "${this.workspace_id}" is registered; known: ${this.known.join(", ") || "none"}. Call workspace_info for the list.`
  }
}

export class Unauthorized extends Schema.TaggedError<Unauthorized>()("UNAUTHORIZED", {
  workspace_id: Schema.String,
  caller: Schema.String,
  lost_profile: Schema.optionalKey(
    Schema.String.annotate({ description: "The caller's highest profile, when the configuration does not have it any more" }),
  ),
}) {
  readonly retry = "never"
  override get message() {
    const refused = `caller "${this.caller}" may not use workspace "${this.workspace_id}"`
    return this.lost_profile === undefined
      ? `${refused}. The operator decides which workspaces a caller has.`
      : `${refused}: its highest profile "${this.lost_profile}" is not in the configuration any more. Only the operator can change that.`
  }
}

export class PathEscape extends Schema.TaggedError<PathEscape>()("PATH_ESCAPE", { path: Schema.String }) {
  readonly retry = "change_request"
  override get message() {
    return `"${this.path}" leaves the workspace. Give a path relative to the workspace root.`
  }
}

export class SymlinkRejected extends Schema.TaggedError<SymlinkRejected>()("SYMLINK_REJECTED", {
  path: Schema.String,
  component: Schema.String,
}) {
  readonly retry = "change_request"
  override get message() {
    return `"${this.path}" passes through the symbolic link "${this.component}". Use the path it points to.`
  }
}

export class SpecialFileRejected extends Schema.TaggedError<SpecialFileRejected>()("SPECIAL_FILE_REJECTED", { path: Schema.String }) {
  readonly retry = "change_request"
  override get message() {
    return `"${this.path}" is a device, pipe or socket. Only regular files are read and written.`
  }
}

export class PathProtected extends Schema.TaggedError<PathProtected>()("PATH_PROTECTED", {
  path: Schema.String,
  rule: Schema.String,
}) {
  readonly retry = "change_request"
  override get message() {
    return `"${this.path}" is protected: ${this.rule}. Choose another path.`
  }
}

export class PathNotFound extends Schema.TaggedError<PathNotFound>()("PATH_NOT_FOUND", {
  path: Schema.String,
  similar: Schema.optionalKey(Schema.Array(Schema.String)),
}) {
  readonly retry = "change_request"
  override get message() {
    const similar = this.similar ?? []
    return `"${this.path}" does not exist.${similar.length > 0 ? ` Did you mean ${similar.map((path) => `"${path}"`).join(", ")}?` : " Use find to look for it."}`
  }
}

export class NotAFile extends Schema.TaggedError<NotAFile>()("NOT_A_FILE", { path: Schema.String, found: Schema.String }) {
  readonly retry = "change_request"
  override get message() {
    return `"${this.path}" is a ${this.found}, not a file.${this.found === "directory" ? " Use find to list what is in it." : ""}`
  }
}

/** Every reason a path can be refused for. */
export const PathRefusal = Schema.Union([PathEscape, SymlinkRejected, SpecialFileRejected, PathProtected, PathNotFound, NotAFile])
export type PathRefusal = typeof PathRefusal.Type
