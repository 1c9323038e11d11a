# The package, built from the lock file: npm's own integrity hashes fix every dependency, so there is no other to keep.
{ pkgs, lib, buildNpmPackage, importNpmLock, makeWrapper, nodejs_24 }:

let
  root = ../.;
  package = lib.importJSON ../package.json;
  packageLock = lib.importJSON ../package-lock.json;

  # The lock file leaves out where the registry keeps a package, since that follows from its name and version.
  withPlace =
    path: entry:
    if entry ? integrity && !(entry ? resolved) then
      let
        name = entry.name or (lib.last (lib.splitString "node_modules/" path));
        file = lib.last (lib.splitString "/" name);
      in
      entry // { resolved = "https://registry.npmjs.org/${name}/-/${file}-${entry.version}.tgz"; }
    else
      entry;
in
buildNpmPackage {
  pname = package.name;
  inherit (package) version;
  src = lib.cleanSource root;
  nodejs = nodejs_24;

  npmDeps = importNpmLock {
    inherit package;
    npmRoot = root;
    packageLock = packageLock // { packages = lib.mapAttrs withPlace packageLock.packages; };
  };
  inherit (importNpmLock) npmConfigHook;
  # The only scripts among the dependencies download programs, which Nix provides.
  npmRebuildFlags = [ "--ignore-scripts" ];

  nativeBuildInputs = [ makeWrapper ];
  postInstall = ''
    wrapProgram $out/bin/codespace --prefix PATH : ${lib.makeBinPath (import ./programs.nix pkgs)}
  '';

  meta = {
    inherit (package) description;
    license = lib.licenses.asl20;
    mainProgram = "codespace";
    platforms = lib.platforms.linux ++ lib.platforms.darwin;
  };
}
