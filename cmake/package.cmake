# What `make deb` does to the staged files before cpack packs them: Debian's policy wants manual pages and the changelog
# compressed. gzip -n, so that two builds of one source are equal.
set(share "${CPACK_TEMPORARY_DIRECTORY}/usr/share")

# The names under which mount(8) and fsck(8) find the helpers for the types of mounts have pages, too.
foreach(name mount fsck)
	foreach(type fuse fuseblk)
		file(CREATE_LINK ${name}.gpu4fs.8.gz "${share}/man/man8/${name}.${type}.gpu4fs.8.gz" SYMBOLIC)
	endforeach()
endforeach()

string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(changelog "${share}/doc/${CPACK_PACKAGE_NAME}/changelog")
file(WRITE "${changelog}" "${CPACK_PACKAGE_NAME} (${CPACK_PACKAGE_VERSION}) stable; urgency=low

  * CHANGES.md, beside this file, has what users notice.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")

file(GLOB pages "${share}/man/man[1-9]/*.[1-9]")
execute_process(COMMAND gzip -9nf ${pages} "${changelog}" COMMAND_ERROR_IS_FATAL ANY)
